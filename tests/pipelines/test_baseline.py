"""Which blessed model is the baseline, and which earlier data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb
from tfx.types import standard_artifacts

from pipelines.baseline import OtherBlessedModelStrategy, OtherStatisticsStrategy


@pytest.fixture
def servable(tmp_path):
    def make(number: int, trained: int):
        model = standard_artifacts.Model()
        model.id = number
        model.uri = str(tmp_path / str(number))
        Path(model.uri).mkdir()
        model.set_int_custom_property("trained_model_id", trained)
        return model

    return make


def blessing(number: int, model, blessed: bool = True):
    artifact = standard_artifacts.ModelBlessing()
    artifact.id = number
    artifact.set_int_custom_property("blessed", int(blessed))
    artifact.set_int_custom_property("current_model_id", model.id)
    return artifact


def resolve(candidate, models, blessings):
    found = OtherBlessedModelStrategy().resolve_artifacts(
        None, {"candidate": [candidate], "model": list(models), "model_blessing": list(blessings)}
    )
    return [model.id for model in found["model"]]


def test_without_a_blessed_model_there_is_none(servable) -> None:
    mine = servable(10, trained=1)
    assert resolve(mine, [mine], []) == []


def test_the_candidates_own_model_is_passed_over(servable) -> None:
    mine = servable(10, trained=1)
    again = servable(11, trained=1)
    assert resolve(again, [mine, again], [blessing(20, mine)]) == []


def test_the_latest_blessed_of_another_model_is_taken(servable) -> None:
    old, newer, refused = servable(10, trained=1), servable(12, trained=2), servable(14, trained=3)
    mine = servable(16, trained=4)
    blessings = [blessing(20, old), blessing(22, newer), blessing(24, refused, blessed=False)]
    assert resolve(mine, [old, newer, refused, mine], blessings) == [12]


def test_a_model_whose_files_are_gone_is_passed_over(servable) -> None:
    old, newer = servable(10, trained=1), servable(12, trained=2)
    Path(newer.uri).rmdir()
    mine = servable(16, trained=4)
    assert resolve(mine, [old, newer, mine], [blessing(20, old), blessing(22, newer)]) == [10]


class Gates:
    """A metadata store with statistics and what has read them."""

    def __init__(self, folder: Path) -> None:
        config = pb.ConnectionConfig(fake_database=pb.FakeDatabaseConfig())
        self.store = metadata_store.MetadataStore(config)
        self._folder = folder
        self._kind = self.store.put_artifact_type(pb.ArtifactType(name="ExampleStatistics"))
        self._node = self.store.put_execution_type(pb.ExecutionType(name="Node"))
        self.known: list[Any] = []

    def statistics(self) -> Any:
        artifact = standard_artifacts.ExampleStatistics()
        artifact.id = self._artifact()
        artifact.uri = str(self._folder / str(artifact.id))
        Path(artifact.uri).mkdir()
        self.known.append(artifact)
        return artifact

    def _artifact(self) -> int:
        return int(self.store.put_artifacts([pb.Artifact(type_id=self._kind, uri="somewhere")])[0])

    def read(self, artifact: Any, state: str, *, given: str, taken: str = "statistics") -> None:
        """Records a node that took the statistics, how it ended, and the key of its output if it has one."""
        execution = pb.Execution(type_id=self._node, last_known_state=pb.Execution.State.Value(state))
        execution.id = self.store.put_executions([execution])[0]
        events = [(artifact.id, pb.Event.INPUT, taken)]
        if given:
            events.append((self._artifact(), pb.Event.OUTPUT, given))
        for number, kind, key in events:
            event = pb.Event(artifact_id=number, execution_id=execution.id, type=kind)
            event.path.steps.add().key = key
            self.store.put_events([event])

    def earlier_than(self, current: Any) -> Sequence[int]:
        found = OtherStatisticsStrategy().resolve_artifacts(
            self.store, {"current": [current], "statistics": list(self.known)}
        )
        assert found is not None
        return [item.id for item in found["statistics"]]


@pytest.fixture
def gates(tmp_path) -> Gates:
    return Gates(tmp_path)


def test_refused_data_are_no_earlier_data(gates) -> None:
    first, second, third = gates.statistics(), gates.statistics(), gates.statistics()
    gates.read(first, "COMPLETE", given="report")
    gates.read(second, "FAILED", given="report")
    gates.read(second, "FAILED", given="")
    assert gates.earlier_than(third) == [first.id]


@pytest.mark.parametrize(
    ("state", "given", "taken"),
    [
        ("COMPLETE", "anomalies", "statistics"),  # ExampleValidator
        ("COMPLETE", "schema", "statistics"),
        ("COMPLETE", "report", "previous_statistics"),  # they were only compared with
        ("RUNNING", "report", "statistics"),  # a gate that was killed
        ("CANCELED", "report", "statistics"),
    ],
)
def test_what_other_nodes_did_with_statistics_lets_nothing_pass(gates, state, given, taken) -> None:
    first = gates.statistics()
    gates.read(first, state, given=given, taken=taken)
    assert gates.earlier_than(gates.statistics()) == []


def test_data_that_passed_later_or_from_the_cache_count(gates) -> None:
    first, second, third = gates.statistics(), gates.statistics(), gates.statistics()
    gates.read(first, "CACHED", given="report")
    assert gates.earlier_than(second) == [first.id]
    gates.read(second, "FAILED", given="")
    gates.read(second, "COMPLETE", given="report")
    assert gates.earlier_than(third) == [second.id]


def test_later_and_removed_statistics_are_passed_over(gates) -> None:
    first, second, third = gates.statistics(), gates.statistics(), gates.statistics()
    for item in (first, second, third):
        gates.read(item, "COMPLETE", given="report")
    assert gates.earlier_than(first) == []
    Path(second.uri).rmdir()
    assert gates.earlier_than(third) == [first.id]

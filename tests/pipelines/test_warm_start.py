"""Which trained model a training begins with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ml_metadata.proto import metadata_store_pb2
from tfx.types import standard_artifacts

from pipelines.warm_start import BlessedTrainedModelStrategy

Event = metadata_store_pb2.Event


class Lineage:
    """What the strategy asks ML Metadata for: one execution made each trained model."""

    def __init__(self, trainings: dict[int, tuple[str, int]]) -> None:
        self._trainings = trainings

    def get_events_by_artifact_ids(self, ids: list[int]) -> list[Any]:
        return [Event(artifact_id=item, execution_id=item + 1000, type=Event.OUTPUT) for item in ids]

    def get_executions_by_id(self, ids: list[int]) -> list[Any]:
        executions = []
        for number in ids:
            execution = metadata_store_pb2.Execution(id=number)
            execution.custom_properties["custom_config"].string_value = self._trainings[number - 1000][0]
            executions.append(execution)
        return executions

    def get_events_by_execution_ids(self, ids: list[int]) -> list[Any]:
        events = []
        for number in ids:
            event = Event(artifact_id=self._trainings[number - 1000][1], type=Event.INPUT)
            event.path.steps.add().key = "examples"
            events.append(event)
        return events


@pytest.fixture
def model(tmp_path: Path) -> Any:
    def make(number: int, trained: int = 0) -> Any:
        artifact = standard_artifacts.Model()
        artifact.id, artifact.uri = number, str(tmp_path / str(number))
        Path(artifact.uri).mkdir()
        if trained:
            artifact.set_int_custom_property("trained_model_id", trained)
        return artifact

    return make


def blessing(number: int, servable: int, blessed: int = 1) -> Any:
    artifact = standard_artifacts.ModelBlessing()
    artifact.id = number
    artifact.set_int_custom_property("blessed", blessed)
    artifact.set_int_custom_property("current_model_id", servable)
    return artifact


def resolve(models: list[Any], blessings: list[Any], trainings: dict[int, tuple[str, int]]) -> list[int]:
    examples = SimpleNamespace(id=7)
    found = BlessedTrainedModelStrategy("now").resolve_artifacts(
        Lineage(trainings), {"examples": [examples], "model": models, "model_blessing": blessings}
    )
    assert found is not None and found["model_blessing"] == []
    return [item.id for item in found["model"]]


def test_the_trained_model_behind_the_latest_blessed_servable(model: Any) -> None:
    models = [model(1), model(11, 1), model(2), model(12, 2), model(3), model(13, 3)]
    blessings = [blessing(21, 11), blessing(22, 12), blessing(23, 13, blessed=0)]
    assert resolve(models, blessings, {1: ("now", 5), 2: ("now", 6)}) == [2]
    assert resolve(models, [], {}) == []


def test_the_same_training_is_passed_over_so_that_it_is_cached(model: Any) -> None:
    models = [model(1), model(11, 1), model(2), model(12, 2)]
    blessings = [blessing(21, 11), blessing(22, 12)]
    assert resolve(models, blessings, {1: ("now", 5), 2: ("now", 7)}) == [1]
    assert resolve(models, blessings, {1: ("now", 5), 2: ("other settings", 7)}) == [2]


def test_a_trained_model_whose_files_are_gone_is_passed_over(model: Any) -> None:
    models = [model(1), model(11, 1), model(2), model(12, 2)]
    Path(models[2].uri).rmdir()
    assert resolve(models, [blessing(21, 11), blessing(22, 12)], {1: ("now", 5), 2: ("now", 6)}) == [1]

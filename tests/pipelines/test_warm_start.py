"""Which trained model a training begins with."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ml_metadata.proto import metadata_store_pb2
from tfx.types import standard_artifacts

from components.serving import manifest
from components.serving_pusher import root as serving_root
from pipelines.warm_start import TrainedModelInServiceStrategy

Event = metadata_store_pb2.Event


class Lineage:
    """What the strategy asks ML Metadata for: one execution made each trained model."""

    def __init__(self, trainings: dict[int, tuple[str, int]], began_with: dict[int, int]) -> None:
        self._trainings, self._began_with = trainings, began_with

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
            if number - 1000 in self._began_with:
                base = Event(artifact_id=self._began_with[number - 1000], type=Event.INPUT)
                base.path.steps.add().key = "base_model"
                events.append(base)
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


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "serving" / "trips"


def push(root: Path, version: int, servable: int) -> None:
    (root / str(version)).mkdir(parents=True)
    manifest.write(root / str(version), {"servable_id": servable})


@pytest.fixture
def resolve(root: Path) -> Any:
    def call(
        models: list[Any],
        blessings: list[Any],
        trainings: dict[int, tuple[str, int]],
        began_with: dict[int, int] | None = None,
    ) -> list[int]:
        examples = SimpleNamespace(id=7)
        found = TrainedModelInServiceStrategy("now", str(root)).resolve_artifacts(
            Lineage(trainings, began_with or {}),
            {"examples": [examples], "model": models, "model_blessing": blessings},
        )
        assert found is not None and found["model_blessing"] == []
        return [item.id for item in found["model"]]

    return call


def test_the_trained_model_behind_the_latest_blessed_servable(model: Any, resolve: Any) -> None:
    models = [model(1), model(11, 1), model(2), model(12, 2), model(3), model(13, 3)]
    blessings = [blessing(21, 11), blessing(22, 12), blessing(23, 13, blessed=0)]
    assert resolve(models, blessings, {1: ("now", 5), 2: ("now", 6)}) == [2]
    assert resolve(models, [], {}) == []


def test_the_same_training_is_passed_over_so_that_it_is_cached(model: Any, resolve: Any) -> None:
    models = [model(1), model(11, 1), model(2), model(12, 2)]
    blessings = [blessing(21, 11), blessing(22, 12)]
    assert resolve(models, blessings, {1: ("now", 5), 2: ("now", 7)}) == [1]
    assert resolve(models, blessings, {1: ("now", 5), 2: ("other settings", 7)}) == [2]


def test_a_trained_model_whose_files_are_gone_is_passed_over(model: Any, resolve: Any) -> None:
    models = [model(1), model(11, 1), model(2), model(12, 2)]
    Path(models[2].uri).rmdir()
    assert resolve(models, [blessing(21, 11), blessing(22, 12)], {1: ("now", 5), 2: ("now", 6)}) == [1]


def test_a_blessed_candidate_that_was_not_pushed_is_passed_over(model: Any, resolve: Any, root: Path) -> None:
    models = [model(1), model(11, 1), model(2), model(12, 2)]
    blessings = [blessing(21, 11), blessing(22, 12)]
    trainings = {1: ("now", 5), 2: ("now", 6)}
    push(root, 1, 11)
    assert resolve(models, blessings, trainings) == [1]
    push(root, 2, 12)
    assert resolve(models, blessings, trainings) == [2]


def test_one_that_was_rolled_back_is_passed_over(model: Any, resolve: Any, root: Path) -> None:
    models = [model(1), model(11, 1), model(2), model(12, 2)]
    blessings = [blessing(21, 11), blessing(22, 12)]
    trainings = {1: ("now", 5), 2: ("now", 6)}
    for version, servable in ((1, 11), (2, 12)):
        push(root, version, servable)
    back = serving_root.Withdrawal("rollback", "it is slow", 1.0)
    serving_root.put_in_service(root, 1, back)
    assert resolve(models, blessings, trainings) == [1]
    # Nothing is in service, and what was blessed is what was taken out of it.
    serving_root.withdraw(root, 1, back)
    assert resolve(models, blessings, trainings) == []


def test_the_training_in_service_over_again_begins_where_it_began(
    model: Any, resolve: Any, root: Path
) -> None:
    models = [model(1), model(11, 1), model(2), model(12, 2), model(3), model(13, 3)]
    trainings = {number: ("now", 7 if number == 2 else 5) for number in (1, 2, 3)}
    push(root, 1, 12)
    assert resolve(models, [], trainings) == []
    assert resolve(models, [], trainings, {2: 1}) == [1]
    Path(models[0].uri).rmdir()  # then the one in service is nearest
    assert resolve(models, [], trainings, {2: 1}) == [2]


def test_a_version_that_others_pushed_is_nothing_to_begin_with(model: Any, resolve: Any, root: Path) -> None:
    models = [model(1), model(11, 1)]
    push(root, 1, 99)
    assert resolve(models, [blessing(21, 11)], {1: ("now", 5)}) == []
    (root / "1" / manifest.PATH).unlink()
    assert resolve(models, [blessing(21, 11)], {1: ("now", 5)}) == []

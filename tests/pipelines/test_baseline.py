"""Which blessed model is the baseline."""

from __future__ import annotations

from pathlib import Path

import pytest
from tfx.types import standard_artifacts

from pipelines.baseline import OtherBlessedModelStrategy


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

"""What a trainer is told, and that it is what an experiment says."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from modules.hparams.train import TrainHparams
from pipelines.train_stages import Train


def test_the_defaults_are_those_of_the_experiment() -> None:
    assert TrainHparams.from_config(Train().model_dump()) == TrainHparams()


def test_hyperparameters_survive_json() -> None:
    told = TrainHparams.from_config(
        {"schedule": {"name": "piecewise", "boundaries": [1.0], "factors": [0.1]}, "optimizer": "sgd"}
    )
    assert TrainHparams.from_config(json.loads(json.dumps(asdict(told)))) == told
    assert told.schedule.boundaries == (1.0,)


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(TypeError, match="epoch"):
        TrainHparams.from_config({"epoch": 3})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"boundaries": [1.0]}, "same length"),
        ({"boundaries": [2.0, 1.0], "factors": [0.1, 0.01]}, "must ascend"),
        ({"name": "piecewise"}, "needs schedule.boundaries"),
    ],
)
def test_pieces_of_a_schedule_must_fit(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Train.model_validate({"schedule": changes})

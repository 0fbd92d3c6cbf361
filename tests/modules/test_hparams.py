"""What a trainer is told, and that it is what an experiment says."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from modules.hparams.train import TrainHparams
from modules.training import optimizers
from pipelines.optimizer_options import OPTIONS
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


def test_an_option_that_the_optimizer_has_not_is_refused_as_the_experiment_is_read() -> None:
    Train.model_validate({"optimizer": "SGD", "optimizer_options": {"momentum": 0.9, "nesterov": True}})
    with pytest.raises(ValueError, match="SGD has no option 'momentun'; Did you mean 'momentum'"):
        Train.model_validate({"optimizer": "SGD", "optimizer_options": {"momentun": 0.9}})


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


def test_the_optimizers_of_an_experiment_are_those_of_keras() -> None:
    assert {name: set(options) for name, options in OPTIONS.items()} == {
        name: set(optimizers.options_of(found)) for name, found in optimizers.known().items()
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": "adamm"}, "no optimizer 'adamm'; did you mean 'adam'"),
        ({"optimizer": "zzz"}, "known: adadelta, .*sgd"),
        ({"batch_size": 5, "local_workers": 3, "accumulate_steps": 2}, "5 is smaller than 3 workers times 2"),
        ({"profile": "30-20"}, "a first and a later last step"),
        ({"profile": "20-20"}, "a first and a later last step"),
        ({"profile": "20-30", "tensorboard": False}, "needs train.tensorboard"),
    ],
)
def test_what_could_not_be_trained_is_refused_before(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Train.model_validate(changes)
    assert Train.model_validate({"optimizer": "AdamW", "profile": "20-30"}).optimizer == "AdamW"

"""The search for hyperparameters: its space, its trials, and what reaches the trainer."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modules.errors import TrainingError
from modules.hparams.train import TrainHparams
from modules.training import classifier, loop, search, tuned
from modules.training.report import FitReport
from tests.modules.training import small

ANY = {"choices": None, "min": None, "max": None, "step": None, "log": False}


def test_the_space_has_choices_whole_numbers_and_numbers() -> None:
    made = search.space(
        {
            "train.batch_size": {**ANY, "choices": [16, 32]},
            "model.filters": {**ANY, "choices": [[4, 8], [8]]},
            "model.blocks": {**ANY, "min": 1, "max": 4},
            "train.learning_rate": {**ANY, "min": 1e-4, "max": 1e-2, "log": True},
        }
    )
    kinds = {item.name: type(item).__name__ for item in made.space}
    assert kinds == {
        "train.batch_size": "Choice",
        "model.filters": "Choice",
        "model.blocks": "Int",
        "train.learning_rate": "Float",
    }
    assert made.get("model.filters") == "json:[4, 8]"


def test_tuned_values_are_what_the_trainer_is_told() -> None:
    config = {"train": {"epochs": 3, "schedule": {"name": "cosine"}}, "model": {"filters": [32]}}
    values = {
        "train.schedule.name": "constant",
        "model.filters": "json:[4, 8]",
        "train.optimizer_options.momentum": 0.9,
        "tuner/epochs": 2,
    }
    told = tuned.configured(SimpleNamespace(custom_config=config, hyperparameters={"values": values}))
    assert told == {
        "train": {"epochs": 3, "schedule": {"name": "constant"}, "optimizer_options": {"momentum": 0.9}},
        "model": {"filters": [4, 8]},
    }
    assert config["model"]["filters"] == [32]
    assert tuned.configured(SimpleNamespace(custom_config=config, hyperparameters=None)) == config


def fit_small(job: classifier.Job) -> FitReport:
    """What a trial does, with the small model."""
    return small.fit(job.train)[1]


def trials(folder: Path, tune: dict[str, Any], fit: search.Fit = fit_small, **settings: Any) -> search.Trials:
    """A search over the small model."""

    def make_job(config: Any) -> classifier.Job:
        none: Any = None
        return classifier.Job(TrainHparams.from_config(config["train"]), "", none)

    config = {"train": asdict(small.hparams(**settings))}
    full = {"oracle": "random", "objective": "val_loss", "trials": 3, "epochs": 2, **tune}
    return search.Trials(config, full, make_job, fit, str(folder), seed=3)


def test_the_best_trial_by_the_validation_loss_wins(tmp_path: Path) -> None:
    """A rate that moves nothing cannot win against one that learns."""
    tune = {"space": {"train.learning_rate": {**ANY, "choices": [1e-9, 0.05]}}, "trials": 2}
    searched = trials(tmp_path, tune)
    searched.search(verbose=0)
    assert searched.get_best_hyperparameters()[0].values == {"train.learning_rate": 0.05}
    scores = [trial.score for trial in searched.oracle.get_best_trials(2)]
    _, report = small.fit(small.hparams(learning_rate=0.05))
    assert scores[0] < scores[1]
    assert scores[0] == min(report.history["val_loss"])
    assert not (tmp_path / "trials").exists()


@pytest.mark.slow
def test_hyperband_trains_the_best_for_longer(tmp_path: Path) -> None:
    space = {"train.learning_rate": {**ANY, "min": 1e-3, "max": 0.2, "log": True}}
    searched = trials(tmp_path, {"space": space, "oracle": "hyperband", "trials": 5, "epochs": 3})
    searched.search(verbose=0)
    epochs = [trial.hyperparameters.values["tuner/epochs"] for trial in searched.oracle.trials.values()]
    assert len(epochs) == 5
    assert max(epochs) == 3 > min(epochs)


def test_a_trial_that_blows_up_is_passed_over_and_only_failures_fail(tmp_path: Path) -> None:
    def fit(job: classifier.Job) -> FitReport:
        if job.train.learning_rate > 1:
            raise TrainingError(loop.NOT_FINITE)
        return fit_small(job)

    tune = {"space": {"train.learning_rate": {**ANY, "choices": [50.0, 0.05]}}, "trials": 2}
    searched = trials(tmp_path / "one", tune, fit)
    searched.search(verbose=0)
    assert [trial.status for trial in searched.oracle.trials.values()].count("FAILED") == 1
    assert searched.get_best_hyperparameters()[0].values == {"train.learning_rate": 0.05}
    tune = {"space": {"train.learning_rate": {**ANY, "choices": [50.0, 60.0]}}, "trials": 2}
    with pytest.raises(TrainingError, match="No trial came to an end: The loss or a gradient is not"):
        trials(tmp_path / "none", tune, fit).search(verbose=0)


def test_a_mistake_of_all_trials_ends_the_search_at_once(tmp_path: Path) -> None:
    tune = {"space": {"train.learning_rate": {**ANY, "min": 0.01, "max": 0.02}}, "trials": 50}
    with pytest.raises(TrainingError, match="no optimizer 'adamv'"):
        trials(tmp_path, tune, optimizer="adamv").search(verbose=0)


def test_a_killed_search_goes_on_after_its_finished_trials(tmp_path: Path) -> None:
    tune = {"space": {"train.learning_rate": {**ANY, "min": 0.01, "max": 0.1}}, "trials": 3}
    first = trials(tmp_path, tune)
    runs: list[str] = []

    def killed(trial: Any, *arguments: Any, **keywords: Any) -> dict[str, float]:
        runs.append(trial.trial_id)
        if len(runs) == 3:
            raise KeyboardInterrupt
        return {"val_loss": 1.0 / len(runs)}

    first.run_trial = killed
    with pytest.raises(KeyboardInterrupt):
        first.search(verbose=0)
    again = trials(tmp_path, tune)
    later: list[str] = []
    again.run_trial = lambda trial, *_, **__: later.append(trial.trial_id) or {"val_loss": 2.0}
    again.search(verbose=0)
    assert later == [runs[2]]
    assert again.oracle.get_best_trials(1)[0].score == 0.5


@pytest.mark.parametrize("step", [0.1, 2.5])
def test_steps_that_are_no_whole_numbers_are_taken_as_they_are(step: float) -> None:
    """Between whole ends, too."""
    made = search.space({"model.augment.rotation": {**ANY, "min": 0, "max": 30, "step": step}})
    (item,) = made.space
    assert (type(item).__name__, item.step) == ("Float", step)

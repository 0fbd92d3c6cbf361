"""Searches for hyperparameters with KerasTuner, as TFX's Tuner calls it.

    def tuner_fn(fn_args):
        return search.tuner(fn_args, lambda config: Job(...))

A trial is a training of its own by the same loop as the Trainer's, on the
training split, and judged on the validation split; the test split is not
there. A search that was killed goes on after the trials that it had finished.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import keras_tuner
from keras_tuner import errors as tuner_errors
from keras_tuner.engine import base_tuner

from modules.errors import TrainingError
from modules.hparams.train import CheckpointHparams, TrainHparams
from modules.training import classifier, identity, loop, tuned
from modules.training.checkpoints import SEARCH_PREFIX
from modules.training.report import FitReport
from modules.training.session import prepare

if TYPE_CHECKING:
    from tfx.components import FnArgs
    from tfx.components.tuner.component import TunerFnResult

MakeJob = Callable[[Mapping[str, Any]], classifier.Job]
Fit = Callable[[classifier.Job], FitReport]

DIRECTIONS = {"val_loss": "min", "val_accuracy": "max", "val_mean_absolute_error": "min"}
_EPOCHS = "tuner/epochs"
_COMPLETED = "COMPLETED"
_ADVICE = "Narrow tune.space: a learning rate that is too high is the most common reason."


def tuner(fn_args: FnArgs, make_job: MakeJob) -> TunerFnResult:
    """A tuner over `custom_config["tune"]`, ready to search.

    Args:
        fn_args: TFX's.
        make_job: from a trainer's configuration, with a trial's values, to the training.

    Raises:
        TypeError: a setting is unknown.
    """
    from tfx.components.tuner.component import TunerFnResult

    def fit(job: classifier.Job) -> FitReport:
        # Trials keep no checkpoints, and are no part of a cluster.
        session = prepare(job.train, environment={}, small=job.small)
        return classifier.fit(fn_args, replace(job, state_root=""), session, echo=lambda line: None).report

    config = dict(fn_args.custom_config)
    tune = config.pop(tuned.TUNE)
    job = make_job(config)
    folder = fn_args.working_dir
    if job.state_root:
        files = identity.files_digest([*fn_args.train_files, *fn_args.eval_files])
        folder = f"{job.state_root}/{SEARCH_PREFIX}{identity.digest([config, tune, files])[:16]}"
    trials = Trials(config, tune, make_job, fit, folder, seed=job.train.seed)
    return TunerFnResult(tuner=trials, fit_kwargs={"verbose": 0})


def oracle(tune: Mapping[str, Any], *, epochs: int, seed: int) -> keras_tuner.Oracle:
    """KerasTuner's oracle for the settings.

    Args:
        tune: `space`, `trials`, `oracle`, `objective`.
        epochs: of the longest trial.
        seed: of its choices.
    """
    common: dict[str, Any] = {
        "objective": keras_tuner.Objective(tune["objective"], DIRECTIONS[tune["objective"]]),
        "hyperparameters": space(tune["space"]),
        "seed": seed,
        # A learning rate that blows up is an answer; only if all do, the search has failed.
        "max_consecutive_failed_trials": tune["trials"] + 1,
    }
    if tune["oracle"] == "hyperband":
        made = keras_tuner.oracles.HyperbandOracle(max_epochs=epochs, hyperband_iterations=None, **common)
        made.max_trials = tune["trials"]
        return made
    kinds = {
        "random": keras_tuner.oracles.RandomSearchOracle,
        "bayesian": keras_tuner.oracles.BayesianOptimizationOracle,
    }
    return kinds[tune["oracle"]](max_trials=tune["trials"], **common)


def space(ranges: Mapping[str, Mapping[str, Any]]) -> keras_tuner.HyperParameters:
    """KerasTuner's search space: dotted names to choices, whole numbers, or numbers."""
    made = keras_tuner.HyperParameters()
    for name, values in ranges.items():
        if values["choices"] is not None:
            made.Choice(name, tuned.encoded(values["choices"]), ordered=False)
            continue
        low, high, step = values["min"], values["max"], values["step"]
        sampling = "log" if values["log"] else "linear"
        whole = all(float(value).is_integer() for value in (low, high, step or 0))
        if whole and isinstance(low, int) and isinstance(high, int):
            made.Int(name, low, high, step=int(step) if step else None, sampling=sampling)
        else:
            made.Float(name, float(low), float(high), step=step, sampling=sampling)
    return made


class Trials(base_tuner.BaseTuner):
    """Trains once for each set of values that the oracle proposes."""

    def __init__(
        self,
        config: Mapping[str, Any],
        tune: Mapping[str, Any],
        make_job: MakeJob,
        fit: Fit,
        folder: str,
        *,
        seed: int,
    ) -> None:
        self._config, self._make_job, self._fit = config, make_job, fit
        self._objective = tune["objective"]
        self._epochs = tune["epochs"] or config["train"]["epochs"]
        self._failure = ""
        made = oracle(tune, epochs=self._epochs, seed=seed)
        super().__init__(oracle=made, directory=folder, project_name="trials")

    def search(self, *arguments: Any, **keywords: Any) -> None:
        """Runs all trials.

        Raises:
            TrainingError: none of them came to an end, or one has a mistake that is no matter of values.
        """
        try:
            super().search(*arguments, **keywords)
        except tuner_errors.FatalError as error:
            raise error.__cause__ or error from None
        if not any(trial.status == _COMPLETED for trial in self.oracle.trials.values()):
            raise TrainingError(f"No trial came to an end: {self._failure}", place="tune", remedy=_ADVICE)
        # What is needed from here on is in memory; a finished search is not to be gone on with.
        folder = Path(self.project_dir)
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # shared with something else
            folder.parent.rmdir()

    def run_trial(self, trial: Any, *arguments: Any, **keywords: Any) -> dict[str, float]:
        """Trains with a trial's values; the objective at its best epoch."""
        values = trial.hyperparameters.values
        job = self._make_job(tuned.with_values(self._config, values))
        train = alone(job.train, epochs=int(values.get(_EPOCHS, self._epochs)))
        keras.backend.clear_session()
        try:
            report = self._fit(replace(job, train=train))
        except TrainingError as error:
            self._failure = error.headline
            if error.headline != loop.NOT_FINITE:
                raise tuner_errors.FatalError(error.headline) from error
            raise tuner_errors.FailedTrialError(error.headline) from error
        shown = {name: value for name, value in values.items() if not name.startswith("tuner/")}
        score = report.history[self._objective][report.best_epoch - 1]
        print(f"trial {trial.trial_id}: {shown}: {self._objective} {score:.4f}", flush=True)
        return {self._objective: score}


def alone(train: TrainHparams, *, epochs: int) -> TrainHparams:
    """The settings of a trial: in this process, without checkpoints and boards."""
    return replace(
        train,
        epochs=epochs,
        local_workers=1,
        strategy="auto" if train.strategy == "multi_worker" else train.strategy,
        checkpoint=CheckpointHparams(every_minutes=0.0),
        tensorboard=False,
        profile="",
    )

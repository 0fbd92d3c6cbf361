"""What `tune:` in an experiment may say, and whether it makes sense for that experiment.

    tune:
      trials: 12
      space:
        train.learning_rate: {min: 0.0003, max: 0.01, log: true}
        model.dropout: {choices: [0.0, 0.2, 0.4]}

Every end of a range, and every choice, is tried on the experiment itself, so
that a search does not fail hours later on a value that no trainer takes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from modules.hparams.families import INPUT_HPARAMS, field_names
from pipelines.errors import nearest
from pipelines.stage import Stage

GROUPS = ("train", "model")
_FREE_FORM = "train.optimizer_options"
_NOT_TUNED = (
    "train.epochs", "train.seed", "train.checkpoint", "train.strategy", "train.local_workers",
    "train.worker_timeout_s", "train.tensorboard", "train.profile", "train.histograms", "train.warm_start",
    "model.family",
)  # fmt: skip


class Range(Stage):
    """The values that one hyperparameter may take."""

    choices: list[Any] | None = Field(None, min_length=2, description="These, instead of min and max.")
    min: int | float | None = Field(None, description="Two whole numbers make a range of whole numbers.")
    max: int | float | None = None
    step: Annotated[float, Field(gt=0)] | None = Field(None, description="Distance of the values tried.")
    log: bool = Field(False, description="Tried evenly over orders of magnitude.")

    @model_validator(mode="after")
    def _one_kind(self) -> Range:
        if self.choices is not None:
            if (self.min, self.max, self.step, self.log) != (None, None, None, False):
                raise ValueError("choices stand alone, without min, max, step and log")
            return self
        if self.min is None or self.max is None:
            raise ValueError("a range needs choices, or min and max")
        if self.min >= self.max:
            raise ValueError(f"min must be below max. Received: min={self.min}, max={self.max}")
        if self.log and (self.min <= 0 or self.step is not None):
            raise ValueError("log needs a min above 0, and no step")
        return self

    def ends(self) -> list[Any]:
        """What is tried on the experiment beforehand."""
        return list(self.choices) if self.choices is not None else [self.min, self.max]


class Tune(Stage):
    """A search for hyperparameters before training, judged on the validation split alone."""

    space: dict[str, Range] = Field(min_length=1, description="Dotted name under train or model -> range.")
    trials: Annotated[int, Field(ge=1, le=10_000)] = Field(10, description="Trainings at most.")
    epochs: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Of each trial; train.epochs when not given. hyperband: of the longest."
    )
    oracle: Literal["random", "bayesian", "hyperband"] = Field(
        "bayesian",
        description="hyperband trains many for a few epochs and the best of them for more, each anew.",
    )
    objective: Literal["val_loss", "val_accuracy", "val_mean_absolute_error"] = Field(
        "val_loss", description="Of the best epoch of a trial."
    )


def check(
    tune: Tune, family: str, experiment: Mapping[str, Any], validate: Callable[[Mapping[str, Any]], Any]
) -> None:
    """Tries every name and end of the search space.

    Args:
        tune: the search.
        family: of models.
        experiment: all settings, as JSON-like values, without `tune`.
        validate: raises ValidationError for settings that are no experiment.

    Raises:
        ValueError: a name is unknown or cannot be tuned, or a value does not fit.
    """
    _check_objective(tune.objective, regression=experiment["model"].get("task") == "regression")
    for name, values in tune.space.items():
        _check_name(name, family, experiment)
        for value in values.ends():
            try:
                validate(with_value(experiment, name, value))
            except ValidationError as error:
                reason = error.errors()[0]["msg"].removeprefix("Value error, ")
                raise ValueError(f"tune.space: {name}={value!r} is no good value: {reason}") from error


def _check_objective(objective: str, *, regression: bool) -> None:
    of_the_other = "val_accuracy" if regression else "val_mean_absolute_error"
    if objective == of_the_other:
        task = "regression" if regression else "classification"
        raise ValueError(f"tune.objective={objective} does not fit a {task}")


def _check_name(name: str, family: str, experiment: Mapping[str, Any]) -> None:
    inputs = {f"model.{item}" for item in field_names(INPUT_HPARAMS[family])}
    if name in inputs:
        raise ValueError(f"tune.space: {name} changes what Transform writes, so it cannot be tuned")
    if name.startswith(_NOT_TUNED):
        raise ValueError(f"tune.space: {name} cannot be tuned")
    group, _, key = name.partition(".")
    if group not in GROUPS or not key:
        raise ValueError(
            f"tune.space: {name!r} should be a dotted name under {' or '.join(GROUPS)}, "
            "such as train.learning_rate"
        )
    if name.rpartition(".")[0] == _FREE_FORM:
        return
    here: Any = experiment
    for part in name.split("."):
        if not isinstance(here, Mapping) or part not in here:
            known = list(here) if isinstance(here, Mapping) else []
            raise ValueError(f"tune.space: there is no {name!r}. {nearest(part, known)}")
        here = here[part]


def with_value(settings: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """A copy of nested settings with the value under a dotted name."""
    copied: dict[str, Any] = copy.deepcopy(dict(settings))
    *groups, last = name.split(".")
    here = copied
    for group in groups:
        here = here[group]
    here[last] = value
    return copied

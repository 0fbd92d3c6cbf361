"""What `tune:` may say."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines import config
from pipelines.errors import ConfigError


def load(space: dict[str, Any], experiment: str = "image", **tune: Any) -> config.Experiment:
    model = {"family": experiment} if experiment == "tabular" else {}
    raw = {"name": "mine", "data": {"path": "x"}, "model": model, "tune": {"space": space, **tune}}
    return config.from_mapping(raw)


def test_a_search_is_read_with_its_defaults() -> None:
    space = {
        "train.learning_rate": {"min": 1e-4, "max": 1e-2, "log": True},
        "train.schedule.name": {"choices": ["cosine", "constant"]},
        "train.optimizer_options.beta_1": {"min": 0.8, "max": 0.95},
        "model.filters": {"choices": [[16, 32], [32, 64]]},
        "model.blocks_per_stage": {"min": 1, "max": 3},
    }
    tune = load(space).tune
    assert tune is not None
    assert (tune.trials, tune.oracle, tune.objective, tune.epochs) == (10, "bayesian", "val_loss", None)
    assert list(tune.space) == list(space)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"train.learning_rat": {"min": 0.1, "max": 0.2}}, "no 'train.learning_rat'. Did you mean"),
        ({"learning_rate": {"min": 0.1, "max": 0.2}}, "a dotted name under train or model"),
        ({"train.batch_size": {"min": 0, "max": 64}}, "train.batch_size=0 is no good value"),
        ({"train.batch_size": {"choices": [32, "many"]}}, "train.batch_size='many' is no good value"),
        ({"train.learning_rate": {"min": 0.2, "max": 0.1}}, "min must be below max"),
        ({"train.learning_rate": {"min": 0.0, "max": 0.1, "log": True}}, "log needs a min above 0"),
        ({"train.learning_rate": {"min": 0.1}}, "a range needs choices, or min and max"),
        ({"train.learning_rate": {"choices": [0.1, 0.2], "min": 0.1}}, "choices stand alone"),
        ({"model.height": {"choices": [32, 64]}}, "model.height changes what Transform writes"),
        ({"train.seed": {"min": 1, "max": 9}}, "train.seed cannot be tuned"),
    ],
)
def test_what_no_trainer_takes_is_refused_before_any_trial(space: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(space)
    assert message in caught.value.headline


def test_the_objective_belongs_to_the_task() -> None:
    space = {"train.learning_rate": {"min": 0.1, "max": 0.2}}
    with pytest.raises(ConfigError, match="val_mean_absolute_error does not fit a classification"):
        load(space, objective="val_mean_absolute_error")


def test_what_transform_is_told_of_tables_is_not_tuned() -> None:
    with pytest.raises(ConfigError, match="changes what Transform writes"):
        load({"model.buckets": {"min": 5, "max": 20}}, "tabular")
    assert load({"model.hidden": {"choices": [[64], [64, 32]]}}, "tabular").tune is not None

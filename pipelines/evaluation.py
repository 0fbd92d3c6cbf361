"""TFMA's configuration from the experiment's."""

from __future__ import annotations

import json
from typing import Any

from modules.hparams.tabular import CLASSIFICATION, REGRESSION
from pipelines.config import Experiment

CANDIDATE = "candidate"
BASELINE = "baseline"
LABEL_ID = "label_id"
LABEL_VALUE = "label_value"
ACCURACY = "accuracy"
MEAN_ABSOLUTE_ERROR = "mean_absolute_error"
MEAN_SQUARED_ERROR = "mean_squared_error"


def is_regression(experiment: Experiment) -> bool:
    """Whether the model predicts a number."""
    return getattr(experiment.model, "task", CLASSIFICATION) == REGRESSION


def eval_config(experiment: Experiment) -> str:
    """JSON of a tfma.EvalConfig, with thresholds.

    The overall accuracy has a floor, and may not fall by more than
    `evaluation.max_drop` below the baseline's; each class has a floor. The mean
    absolute error of a regression has a ceiling instead, and may not rise by
    more than `evaluation.max_error_rise` of the baseline's.
    """
    if is_regression(experiment):
        config = _config(LABEL_VALUE, [{}], _errors(experiment))
    else:
        by_class = {"feature_keys": [experiment.data.label]}
        config = _config(LABEL_ID, [{}, by_class], [_accuracy(experiment, by_class)])
    return json.dumps(config, sort_keys=True)


def _errors(experiment: Experiment) -> list[Any]:
    settings = experiment.evaluation
    threshold: dict[str, Any] = {
        "change_threshold": {"direction": "LOWER_IS_BETTER", "relative": settings.max_error_rise}
    }
    if settings.max_error is not None:
        threshold["value_threshold"] = {"upper_bound": settings.max_error}
    return [
        {
            "class_name": "MeanAbsoluteError",
            "config": json.dumps({"name": MEAN_ABSOLUTE_ERROR}),
            "threshold": threshold,
        },
        {"class_name": "MeanSquaredError", "config": json.dumps({"name": MEAN_SQUARED_ERROR})},
    ]


def _accuracy(experiment: Experiment, by_class: dict[str, Any]) -> Any:
    settings = experiment.evaluation
    overall_threshold = {
        "value_threshold": {"lower_bound": settings.min_accuracy},
        "change_threshold": {"direction": "HIGHER_IS_BETTER", "absolute": -settings.max_drop},
    }
    class_threshold = {"value_threshold": {"lower_bound": settings.min_class_accuracy}}
    return {
        "class_name": "SparseCategoricalAccuracy",
        "config": json.dumps({"name": ACCURACY}),
        "per_slice_thresholds": [
            {"slicing_specs": [{}], "threshold": overall_threshold},
            {"slicing_specs": [by_class], "threshold": class_threshold},
        ],
    }


def _config(label_key: str, slices: list[Any], metrics: list[Any]) -> dict[str, Any]:
    return {
        "model_specs": [
            {"name": CANDIDATE, "label_key": label_key},
            {"name": BASELINE, "label_key": label_key, "is_baseline": True},
        ],
        "slicing_specs": slices,
        "metrics_specs": [
            {
                "model_names": [CANDIDATE, BASELINE],
                "metrics": [*metrics, {"class_name": "ExampleCount"}],
            }
        ],
    }

"""TFMA's configuration from the experiment's."""

from __future__ import annotations

import json

from pipelines.config import Experiment

CANDIDATE = "candidate"
BASELINE = "baseline"
LABEL_ID = "label_id"
ACCURACY = "accuracy"


def eval_config(experiment: Experiment) -> str:
    """JSON of a tfma.EvalConfig: accuracy overall and per class, with thresholds.

    The overall accuracy has a floor, and may not fall by more than
    `evaluation.max_drop` below the baseline's; each class has a floor.
    """
    settings = experiment.evaluation
    by_class = {"feature_keys": [experiment.data.label]}
    overall_threshold = {
        "value_threshold": {"lower_bound": settings.min_accuracy},
        "change_threshold": {"direction": "HIGHER_IS_BETTER", "absolute": -settings.max_drop},
    }
    class_threshold = {"value_threshold": {"lower_bound": settings.min_class_accuracy}}
    accuracy = {
        "class_name": "SparseCategoricalAccuracy",
        "config": json.dumps({"name": ACCURACY}),
        "per_slice_thresholds": [
            {"slicing_specs": [{}], "threshold": overall_threshold},
            {"slicing_specs": [by_class], "threshold": class_threshold},
        ],
    }
    config = {
        "model_specs": [
            {"name": CANDIDATE, "label_key": LABEL_ID},
            {"name": BASELINE, "label_key": LABEL_ID, "is_baseline": True},
        ],
        "slicing_specs": [{}, by_class],
        "metrics_specs": [
            {
                "model_names": [CANDIDATE, BASELINE],
                "metrics": [accuracy, {"class_name": "ExampleCount"}],
            }
        ],
    }
    return json.dumps(config, sort_keys=True)

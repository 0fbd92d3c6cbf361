"""A version that was pushed by the run that the report's tests make."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from pipelines.cards.known import Known
from pipelines.lineage.source import Push
from tests.pipelines.report.conftest import CLASSES, full_view  # noqa: F401 a fixture

SERVABLE = {
    "runtime": "saved_model",
    "technique": "int8_static",
    "class_names": list(CLASSES),
    "signatures": [{"name": "serving_default", "input": "examples"}],
    "scores": "scores",
    "classes": "classes",
}


@pytest.fixture
def found(full_view) -> Known:  # noqa: F811
    settings: dict[str, Any] = {
        "data": {"path": "photos/", "label": "label"},
        "model": {"family": "image", "name": "separable_resnet"},
        "card": {
            "license": "Apache-2.0",
            "intended_use": "Telling <b>x</b>.",
            "limits": ["Not for | pipes."],
        },
        "evaluation": {},
    }
    details = {**full_view.run.details, "config": json.dumps(settings)}
    view = dataclasses.replace(full_view, run=dataclasses.replace(full_view.run, details=details))
    slices = {
        "label=10": {"accuracy": 1.0, "example_count": 1.0},
        "overall": {"accuracy": 0.9, "example_count": 1000.0},
        "label=9": {"accuracy": 0.89, "example_count": 999.0},
    }
    return Known(
        push=Push(7, "m", 3, "/s/m/3", 1.7e9),
        view=view,
        baseline="m@2",
        servable=SERVABLE,
        slices=slices,
        before={"overall": {"accuracy": 0.85}},
        counts={"train": {"0": 4, "10": 1, "9": 1}, "validation": {"0": 4}},
    )

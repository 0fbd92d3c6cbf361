"""Answers of a fresh process against the judged ones."""

from __future__ import annotations

import numpy as np
import pytest

from components.infra_validator import validate
from components.rewriter.base import TrainedModel
from components.rewriter.techniques import TECHNIQUES
from components.serving import runtimes
from components.serving.servable import version_folder

NAMES = ("a", "b")
JUDGED = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)
CLASSES = [["a", "b"]] * 2


def test_equal_answers_pass() -> None:
    assert validate.compare(JUDGED.copy(), CLASSES, NAMES, JUDGED) == []


@pytest.mark.parametrize(
    ("scores", "classes", "fault"),
    [
        (JUDGED[:1], CLASSES, "have shape"),
        (JUDGED + 1e-3, CLASSES, "differ from the judged ones by up to 1.00e-03"),
        (np.array([[np.nan, 0.75], [0.5, 0.5]]), CLASSES, "1 scores are not finite"),
        (JUDGED, [["a", "b"], ["b", "a"]], "class names differ"),
    ],
)
def test_differences_are_named(scores, classes, fault: str) -> None:
    faults = validate.compare(scores, classes, NAMES, JUDGED)
    assert any(fault in item for item in faults)


def test_a_real_servable_in_a_process_of_its_own(
    model_uri, contract, examples_uri, records, tmp_path
) -> None:
    servable, scratch = tmp_path / "servable", tmp_path / "scratch"
    for folder in (servable, scratch):
        folder.mkdir()
    trained = TrainedModel(str(model_uri), contract)
    TECHNIQUES["frozen"](trained, version_folder(servable))
    trained.servable("frozen").write(servable)
    judged = runtimes.load(servable).predict(records).scores
    request = validate.Request(str(servable), str(examples_uri), "validation", 8, scratch)
    assert validate.validate(request, judged, seconds=120) == []
    (version_folder(servable) / "saved_model.pb").write_bytes(b"broken")
    faults = validate.validate(request, judged, seconds=120)
    assert len(faults) == 1
    assert "could not be loaded and asked" in faults[0]

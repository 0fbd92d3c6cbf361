"""What two models' answers say of a candidate's quality."""

from __future__ import annotations

import numpy as np
import pytest

from components.errors import DataError
from components.rewriter import measure


def test_labels_of_which_none_is_a_class_judge_nothing(make_example) -> None:
    """Neither model would ever be right, so that a candidate could lose nothing."""
    records = [make_example(label="cats")] * 3
    scores = np.eye(3, dtype=np.float32)
    with pytest.raises(DataError, match="'label' is a class"):
        measure.quality(scores[::-1], scores, measure.Questions(records, "label", []), ["cat", "dog", "owl"])


def test_labels_that_are_no_class_do_not_count_as_judged(make_example) -> None:
    """Neither model is right there: with them, the same losses would be a smaller share."""
    labels = ["cat", "dog", "owl", "cow", "hen", "cow"]
    records = [make_example(label=label) for label in labels]
    original = np.eye(3, dtype=np.float32)[[0, 1, 2, 0, 1, 2]]
    scores = np.eye(3, dtype=np.float32)[[0, 2, 2, 1, 1, 1]]
    asked = measure.Questions(records, "label", ["label"])
    found = measure.quality(scores, original, asked, ["cat", "dog", "owl"])
    assert (found["examples"], found["newly_wrong"], found["newly_right"]) == (3, 1, 0)
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert [(item.name, item.examples) for item in found["slices"]] == [
        ("label=cat", 1), ("label=dog", 1), ("label=owl", 1),
    ]  # fmt: skip

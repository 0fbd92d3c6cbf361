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

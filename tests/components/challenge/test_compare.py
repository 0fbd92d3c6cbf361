"""A candidate beside the model in service: what is refused, by bounds."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from components.challenge import compare
from components.challenge.compare import Limits, Result, faults

LIMITS = Limits(max_drop=2.0, max_slice_drop=5.0, confidence=0.95)


def result(part: str = "all", examples: int = 1000, wrong: int = 0, right: int = 0) -> Result:
    current = 0.9
    return Result(
        "newest data", part, examples, current + (right - wrong) / max(examples, 1), current, wrong, right
    )


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (result(), ""),
        (result(wrong=10, right=30), ""),
        (result(wrong=60, right=20), "on the newest data it is worse: it loses"),
        (result(wrong=45, right=33), "it may lose up to"),
        (result(examples=40), "it may lose up to"),
        (result(examples=0), "there are no examples"),
        (result("day=Sunday", examples=20), ""),
        (result("day=Sunday", examples=20, wrong=9), "on the newest data, day=Sunday it is worse"),
        (result("day=Sunday", examples=300, wrong=20, right=14), "it may lose up to"),
        (result("day=Sunday", examples=0), ""),
    ],
)
def test_what_is_refused(found, said) -> None:
    told = faults([found], LIMITS)
    assert bool(told) == bool(said)
    assert said in " ".join(told)


def test_numbers_are_compared_by_their_errors() -> None:
    fine = Result("golden set", "all", 500, 1.0, 1.0, rise=0.1, rise_error=0.5)
    worse = Result("golden set", "all", 500, 1.2, 1.0, rise=20.0, rise_error=2.0)
    unsure = Result("golden set", "all", 9, 1.0, 1.0, rise=0.0, rise_error=30.0)
    assert faults([fine], LIMITS) == []
    assert "on the golden set it is worse: it loses 16.7 to 23.3 percent" in faults([worse], LIMITS)[0]
    assert "may lose up to 55.8 percent of error" in faults([unsure], LIMITS)[0]


def test_a_slice_of_a_feature_that_no_example_has_is_named() -> None:
    # Else a slip of the pen would leave the part that must not get worse unwatched.
    unknown = Result("newest data", "dya=Sunday", 0, 0.0, 0.0, unknown=True)
    assert faults([unknown], LIMITS) == ["on the newest data, dya=Sunday: no example has that feature"]


class _Model:
    """Answers what it is given, in batches."""

    def __init__(self, scores: np.ndarray, class_names: Sequence[str]) -> None:
        self.servable = SimpleNamespace(class_names=class_names)
        self._left, self.batches = list(scores), []

    def predict(self, records: Sequence[bytes]) -> SimpleNamespace:
        self.batches.append(len(records))
        taken = [self._left.pop(0) for _ in records]
        return SimpleNamespace(scores=np.array(taken))


def test_answers_that_are_no_numbers_are_wrong_and_none_asks_for_all_at_once(make_example) -> None:
    records = [make_example(label="a")] * 100
    fine = _Model(np.tile([[0.9, 0.1]], (100, 1)), ["a", "b"])
    broken = _Model(np.full((100, 2), np.nan), ["a", "b"])
    found = compare._classified(records, [broken, fine], "label")
    assert [int(right.sum()) for right in found] == [0, 100]
    assert max(fine.batches) < 100


def test_a_regression_that_answers_no_number_is_refused(make_example) -> None:
    records = [make_example(price=5.0)] * 500
    values = np.full((500, 1), 5.0)
    values[3] = np.nan
    errors = compare._valued(records, [_Model(values, []), _Model(np.full((500, 1), 6.0), [])], "price")
    assert faults([compare._errors("newest data", "all", *errors)], LIMITS)

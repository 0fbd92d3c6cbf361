"""Intervals against published values and simulation's bounds."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.cards import intervals


@pytest.mark.parametrize(
    ("value", "examples", "expected"),
    [
        # Newcombe (1998, Statistics in Medicine 17:857), table I, method 3.
        (81 / 263, 263, (0.2553, 0.3662)),
        (15 / 148, 148, (0.0624, 0.1605)),
        (0.0, 20, (0.0, 0.1611)),
        (1 / 29, 29, (0.0061, 0.1718)),
    ],
)
def test_shares_as_published(value, examples, expected) -> None:
    assert intervals.share(value, examples) == pytest.approx(expected, abs=5e-5)


def test_shares_stay_within_their_range() -> None:
    assert intervals.share(1.0, 1)[1] == 1.0
    assert intervals.share(0.0, 1)[0] == 0.0


def test_mean_errors_hold_the_true_one_as_often_as_they_say() -> None:
    errors = np.abs(np.random.default_rng(7).normal(0, 2, (400, 500)))
    true = 2 * np.sqrt(2 / np.pi)
    held = 0
    for row in errors:
        low, high = intervals.mean_error(row.mean(), (row**2).mean(), len(row))
        held += low <= true <= high
    assert 0.93 <= held / 400 <= 0.97

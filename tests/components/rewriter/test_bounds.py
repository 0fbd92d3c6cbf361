"""Bounds of a drop: closed forms, published values, levels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from components.rewriter import bounds


@pytest.mark.parametrize("examples", [1, 12, 40, 299, 359, 3000])
def test_without_disagreement_the_bound_has_a_closed_form(examples: int) -> None:
    expected = 100 * (1 - 0.05 ** (1 / examples))
    assert bounds.drop_upper_bound(0, 0, examples, 0.95) == pytest.approx(expected, rel=1e-9)


def test_the_exact_part_is_clopper_and_pearsons() -> None:
    """At the bound, seeing so few newly wrong examples has probability 1 - confidence."""
    bound = bounds._clopper_pearson_upper(7, 400, 0.95)
    assert stats.binom.cdf(7, 400, bound) == pytest.approx(0.05, rel=1e-6)


def test_the_score_part_is_tangos() -> None:
    """Of 50 pairs 12 and 2 disagree: 0.0611 to 0.3447 at 95 % on both sides."""
    assert bounds._tango_upper(12, 2, 50, 0.975) == pytest.approx(0.3447, abs=5e-5)
    assert -bounds._tango_upper(2, 12, 50, 0.975) == pytest.approx(0.0611, abs=5e-5)


def test_without_disagreement_the_score_part_has_a_closed_form() -> None:
    quantile = stats.norm.ppf(0.95)
    assert bounds._tango_upper(0, 0, 300, 0.95) == pytest.approx(quantile**2 / (300 + quantile**2), rel=1e-6)


def test_what_became_right_counts_against_what_became_wrong() -> None:
    alone = bounds.drop_upper_bound(20, 0, 1000, 0.95)
    balanced = bounds.drop_upper_bound(20, 20, 1000, 0.95)
    assert balanced < 1.2 < alone


def test_all_wrong_bounds_nothing() -> None:
    assert bounds.drop_upper_bound(5, 0, 5, 0.95) == 100.0


def test_a_certain_loss_has_a_lower_bound() -> None:
    assert bounds.drop_lower_bound(10, 0, 36, 0.95) > 10.0
    assert bounds.drop_lower_bound(1, 0, 36, 0.95) < 0.0


def test_one_point_needs_299_examples() -> None:
    needed = bounds.examples_needed(1.0, 0.95)
    assert needed == 299
    assert (
        bounds.drop_upper_bound(0, 0, needed, 0.95) <= 1.0 < bounds.drop_upper_bound(0, 0, needed - 1, 0.95)
    )


@pytest.mark.parametrize(("drop", "disagree"), [(0.02, 0.02), (0.02, 0.06), (0.05, 0.08)])
def test_the_bound_holds_about_as_often_as_it_says(drop: float, disagree: float) -> None:
    """Simulated on 400 examples: below the true drop in about 5 % of 2,000 draws (seed 5)."""
    rng = np.random.default_rng(5)
    wrong_share = (disagree + drop) / 2
    draws = rng.multinomial(400, [wrong_share, disagree - wrong_share, 1 - disagree], size=2000)
    below = [
        bounds.drop_upper_bound(int(wrong), int(right), 400, 0.95) < 100 * drop for wrong, right, _ in draws
    ]
    assert np.mean(below) <= 0.065

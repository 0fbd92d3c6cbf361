"""Bounds of a drop between two models judged on the same examples. Pure functions.

    drop_upper_bound(newly_wrong=3, newly_right=2, examples=400, confidence=0.95)   # points

Scores of the two models are paired: what counts is on how many examples the
candidate is wrong where the original is right (`newly_wrong`), and the other
way round (`newly_right`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import stats


def drop_upper_bound(newly_wrong: int, newly_right: int, examples: int, confidence: float) -> float:
    """Upper bound of the accuracy drop, in points (percent).

    The larger of two bounds: Tango's score bound of the difference of paired
    proportions (Tango, 1998, Statistics in Medicine 17:891), and the exact
    bound (Clopper and Pearson, 1934, Biometrika 26:404) of the net loss. The
    score bound is close to its level except where few examples disagree, and
    the exact one takes over there: with no disagreement among n it is
    100 * (1 - (1 - confidence) ** (1 / n)).
    """
    net = max(newly_wrong - newly_right, 0)
    exact = _clopper_pearson_upper(net, examples, confidence)
    return 100.0 * max(exact, _tango_upper(newly_wrong, newly_right, examples, confidence))


def drop_lower_bound(newly_wrong: int, newly_right: int, examples: int, confidence: float) -> float:
    """Lower bound of the accuracy drop, in points: the smaller of the same two bounds."""
    net = max(newly_wrong - newly_right, 0)
    exact = float(stats.beta.ppf(1.0 - confidence, net, examples - net + 1)) if net else 0.0
    return 100.0 * min(exact, -_tango_upper(newly_right, newly_wrong, examples, confidence))


def examples_needed(max_drop: float, confidence: float) -> int:
    """How many examples without disagreement bring the bound to `max_drop` points."""
    if max_drop <= 0.0:
        return 2**31
    if max_drop >= 100.0:
        return 1
    return math.ceil(math.log1p(-confidence) / math.log1p(-max_drop / 100.0))


def mean_upper_bound(mean: float, error: float, examples: int, confidence: float) -> float:
    """Upper bound of a mean by its standard error: Student's, which is infinite for one example."""
    if examples < 2:
        return math.inf
    return mean + float(stats.t.ppf(confidence, examples - 1)) * error


def median_upper_bound(ratios: Sequence[float], confidence: float) -> float:
    """Upper bound of the median, by order statistics; infinite with too few rounds."""
    ordered = sorted(ratios)
    rank = int(stats.binom.ppf(confidence, len(ordered), 0.5)) + 1
    return ordered[rank - 1] if rank <= len(ordered) else float("inf")


def rounds_needed(confidence: float) -> int:
    """How many rounds bound the median at all: of n, the largest is above it with probability 1 - 2 ** -n."""
    return math.ceil(-math.log2(1.0 - confidence))


def median_lower_bound(ratios: Sequence[float], confidence: float) -> float:
    """Lower bound of the median, by order statistics; 0 with too few rounds."""
    upper = median_upper_bound([-ratio for ratio in ratios], confidence)
    return 0.0 if upper == float("inf") else -upper


def _clopper_pearson_upper(count: int, examples: int, confidence: float) -> float:
    if count >= examples:
        return 1.0
    return float(stats.beta.ppf(confidence, count + 1, examples - count))


def _tango_upper(newly_wrong: int, newly_right: int, examples: int, confidence: float) -> float:
    """The largest difference that the score test at this level does not reject."""
    quantile = float(stats.norm.ppf(confidence))
    difference = (newly_wrong - newly_right) / examples
    low, high = difference, 1.0
    for _ in range(60):  # bisection, to far below any use
        middle = (low + high) / 2
        if _score(newly_wrong, newly_right, examples, middle) > -quantile:
            low = middle
        else:
            high = middle
    return high


def _score(newly_wrong: int, newly_right: int, examples: int, difference: float) -> float:
    """Tango's statistic for a true drop of `difference`; falls as that grows.

    `share` is the maximum likelihood estimate, under that drop, of the
    probability that an example becomes right.
    """
    excess = newly_wrong - newly_right - examples * difference
    a = 2.0 * examples
    b = -newly_wrong - newly_right + (2.0 * examples - newly_wrong + newly_right) * difference
    c = -newly_right * difference * (1.0 - difference)
    share = (math.sqrt(max(b * b - 4.0 * a * c, 0.0)) - b) / (2.0 * a)
    variance = examples * (2.0 * share + difference * (1.0 - difference))
    if variance <= 0.0:
        return 0.0 if excess == 0 else math.copysign(math.inf, excess)
    return excess / math.sqrt(variance)

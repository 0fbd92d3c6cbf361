"""How far a figure on a test split may be from that on all such data, at 95 %.

share(0.9, 100)               # (0.826, 0.945)
mean_error(1.0, 1.5, 400)     # (0.931, 1.069)
"""

from __future__ import annotations

import math
from statistics import NormalDist

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


def share(value: float, examples: int) -> tuple[float, float]:
    """The interval of a share, such as an accuracy: Wilson (1927, JASA 22:209).

    Unlike the usual plus or minus it stays within [0, 1] and says something of
    few examples and of shares of 0 and 1.

    Args:
        value: in [0, 1].
        examples: that it was counted on; at least 1.
    """
    spread = _Z * _Z / examples
    middle = (value + spread / 2) / (1 + spread)
    half = _Z / (1 + spread) * math.sqrt(value * (1 - value) / examples + spread / (4 * examples))
    return max(0.0, middle - half), min(1.0, middle + half)


def mean_error(mean_absolute: float, mean_squared: float, examples: int) -> tuple[float, float]:
    """The interval of a mean absolute error, by the normal distribution of means.

    The squares of the absolute errors have the mean squared error for their
    mean, so that the two give the variance.
    """
    variance = max(0.0, mean_squared - mean_absolute**2)
    half = _Z * math.sqrt(variance / examples)
    return max(0.0, mean_absolute - half), mean_absolute + half

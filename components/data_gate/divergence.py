"""Distances of distributions, in NumPy alone.

jensen_shannon(ours, theirs)        # of two lists of quantile buckets, in bits
largest_change(ours, theirs)        # of any category's share
chance(500, 4_000)                  # what such samples of one distribution differ by
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

Bucket = tuple[float, float, float]
"""Lower and upper edge, and the count of what lies between."""

_CHANCE = 1e-3
"""A shift that chance alone exceeds this seldom is not put down to chance."""


def chance(examples: int, others: int) -> float:
    """What two samples of one distribution may differ by, as an upper bound.

    The Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant (1990) for
    each sample; without it 20 examples in a split would drift in every run.
    """
    scale = math.sqrt(math.log(2 / _CHANCE) / 2)
    return scale * (1 / math.sqrt(max(examples, 1)) + 1 / math.sqrt(max(others, 1)))


def largest_change(ours: Mapping[str, int], theirs: Mapping[str, int]) -> tuple[str, float]:
    """The category whose share has changed most, and by how much (L-infinity); of counts."""
    shares = [
        {name: count / max(sum(counts.values()), 1) for name, count in counts.items()}
        for counts in (ours, theirs)
    ]
    rises = {name: shares[0].get(name, 0.0) - shares[1].get(name, 0.0) for name in sorted({*ours, *theirs})}
    # Of two that mirror each other the one that has grown says more.
    name, rise = max(rises.items(), key=lambda item: (round(abs(item[1]), 9), item[1]), default=("", 0.0))
    return name, abs(rise)


def quantile_buckets(values: np.ndarray, count: int = 10) -> list[Bucket]:
    """Buckets of equal count between the quantiles of (N,) values."""
    edges = np.quantile(values, np.linspace(0.0, 1.0, count + 1)).tolist()
    return [(low, high, len(values) / count) for low, high in pairwise(edges)]


def jensen_shannon(ours: Sequence[Bucket], theirs: Sequence[Bucket]) -> float:
    """Jensen-Shannon divergence in bits of two distributions given by their quantiles.

    Both are brought to the bins between all their edges; within a bucket the
    mass counts as even (Lin, 1991, for the divergence).
    """
    edges = np.unique([edge for low, high, _ in (*ours, *theirs) for edge in (low, high)])
    p, q = (np.diff(_cumulative(buckets, edges), prepend=0.0) for buckets in (ours, theirs))
    middle = (p + q) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = [np.where(x > 0, x * np.log2(x / middle), 0.0) for x in (p, q)]
    return float(np.clip(sum(term.sum() for term in terms) / 2, 0.0, 1.0))


def _cumulative(buckets: Sequence[Bucket], edges: np.ndarray) -> np.ndarray:
    """Share of the values up to each edge, the edge included."""
    share: np.ndarray = np.zeros(len(edges))
    for low, high, count in buckets:
        inside = (edges - low) / (high - low) if high > low else (edges >= high).astype(float)
        share = share + np.clip(inside, 0.0, 1.0) * count
    return share / sum(count for _, _, count in buckets)

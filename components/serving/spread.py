"""Which records of a split stand for all of it. Standard library only.

spread(10_000, 4)           # [0, 2500, 5000, 7500]

Records lie in the order of the input, and inputs are often sorted by class, by
file or by time: the first few thousand would be a few classes, or the oldest days.
"""

from __future__ import annotations


def spread(total: int, count: int) -> list[int]:
    """The places of `count` among `total`, evenly apart; all of them where there are no more."""
    taken = min(total, count)
    return [number * total // taken for number in range(taken)]

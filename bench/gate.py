"""How often the Rewriter's gate passes a bad candidate, or refuses a sound one.

    python -m bench.gate [--quick]

Simulates the rule of `components.rewriter.bounds` with its default of one
point at 0.95: n validation examples, a candidate with a true drop, and a
share of examples that change sides without any net loss, as rounding does.
Every (n, drop, share) is drawn many times from the multinomial distribution,
with a seed. A candidate whose true drop is over the limit and that passes is
a false pass; the rule promises at most 5 % of those. One within the limit
that is refused is a false refusal; with few examples there are many, since
too few examples cannot show that nothing is lost.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np

from bench.common import Figure, print_table, report
from components.rewriter.bounds import drop_upper_bound

EXAMPLES = (12, 40, 120, 300, 1000, 3000)
DROPS = (0.0, 0.5, 1.0, 2.0, 5.0)
CHURN = (0.0, 0.5, 2.0)
"""Points of examples that become wrong beside as many that become right."""

MAX_DROP, CONFIDENCE = 1.0, 0.95
_SEED = 23


@dataclass(frozen=True)
class Cell:
    """One simulated case.

    Attributes:
        examples: n.
        drop: true, in points.
        churn: points that change sides without net loss, in each direction.
        passed: share of draws that the rule passed, in [0, 1].
    """

    examples: int
    drop: float
    churn: float
    passed: float

    @property
    def is_bad(self) -> bool:
        """Whether passing is the mistake: the true drop is over the limit."""
        return self.drop > MAX_DROP

    @property
    def wrong(self) -> float:
        """Share of draws in which the rule was mistaken."""
        return self.passed if self.is_bad else 1.0 - self.passed


def simulate(examples: int, drop: float, churn: float, draws: int, rng: np.random.Generator) -> Cell:
    """Draws candidates and applies the rule.

    Args:
        examples: n.
        drop: true, in points.
        churn: points that change sides without net loss, in each direction.
        draws: how many candidates.
        rng: where they come from.
    """
    shares = [(drop + churn) / 100.0, churn / 100.0]
    drawn = rng.multinomial(examples, [*shares, 1.0 - sum(shares)], size=draws)
    passed = [_passes(int(wrong), int(right), examples) for wrong, right, _ in drawn]
    return Cell(examples, drop, churn, float(np.mean(passed)))


@cache
def _passes(newly_wrong: int, newly_right: int, examples: int) -> bool:
    return drop_upper_bound(newly_wrong, newly_right, examples, CONFIDENCE) <= MAX_DROP


def cells(draws: int) -> Iterator[Cell]:
    """All cases, in a seeded order of draws."""
    rng = np.random.default_rng(_SEED)
    for examples in EXAMPLES:
        for drop in DROPS:
            for churn in CHURN:
                yield simulate(examples, drop, churn, draws, rng)


def main() -> None:
    """Prints the rates and writes them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2,000 draws a case instead of 20,000")
    draws = 2000 if parser.parse_args().quick else 20000
    found = list(cells(draws))
    columns = ("n", *(f"drop {drop:g}, ±{churn:g}" for drop in DROPS for churn in CHURN))
    rows = [
        (str(examples), *(f"{100 * cell.passed:.1f}" for cell in found if cell.examples == examples))
        for examples in EXAMPLES
    ]
    for start in range(1, len(columns), 6):
        print_table(
            f"Passed, % of {draws:,} draws (limit {MAX_DROP:g} point, confidence {CONFIDENCE:g})",
            ("n", *columns[start : start + 6]),
            [(row[0], *row[start : start + 6]) for row in rows],
        )
    worst_pass = max(cell.wrong for cell in found if cell.is_bad)
    at_limit = max(cell.passed for cell in found if cell.drop == MAX_DROP)
    enough = [cell.wrong for cell in found if cell.examples == 3000 and cell.drop == 0.0]
    report(
        "gate",
        [
            Figure.of("worst_false_pass_rate", [worst_pass], [1.0], "share", "<= 0.05"),
            Figure.of("worst_pass_rate_at_limit", [at_limit], [1.0], "share", "<= 0.06"),
            Figure.of("false_refusal_rate_n3000_no_drop", [max(enough)], [1.0], "share", "<= 0.2"),
        ],
        {"draws": draws, "cells": [{**asdict(cell), "wrong": cell.wrong} for cell in found]},
    )


if __name__ == "__main__":
    main()

"""The simulation of the gate."""

from __future__ import annotations

import numpy as np

from bench import gate


def test_bad_candidates_seldom_pass_and_sound_ones_do_with_enough_examples() -> None:
    """500 draws each, seed 23: at the limit about 5 %, over it less, under it more with more examples."""
    rng = np.random.default_rng(23)
    rate = {
        (examples, drop): gate.simulate(examples, drop, 0.0, 500, rng).passed
        for examples in (300, 3000)
        for drop in (0.0, 1.0, 2.0)
    }
    assert rate[300, 0.0] == rate[3000, 0.0] == 1.0
    assert max(rate[300, 1.0], rate[3000, 1.0]) <= 0.08
    assert max(rate[300, 2.0], rate[3000, 2.0]) <= 0.02


def test_too_few_examples_pass_nothing() -> None:
    rng = np.random.default_rng(1)
    assert gate.simulate(120, 0.0, 0.0, 50, rng).passed == 0.0


def test_what_counts_as_a_mistake() -> None:
    assert gate.Cell(300, 2.0, 0.0, 0.1).wrong == 0.1
    assert gate.Cell(300, 0.5, 0.0, 0.1).wrong == 0.9

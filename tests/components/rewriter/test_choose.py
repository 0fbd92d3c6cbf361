"""The gate: exact bounds, and who qualifies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.rewriter import choose
from components.rewriter.choose import Figures, Policy

POLICY = Policy("latency", 1.0, 0.95)
GOOD = Figures(
    name="frozen",
    examples=1000,
    size_bytes=500,
    size_ratio=0.5,
    load_ms=10.0,
    latency_ms_p50=1.0,
    latency_ms_p95=2.0,
    latency_ratios=(0.8,) * 15,
    throughput_ratios=(1.2,) * 15,
    peak_memory_mb=100.0,
    accuracy=0.95,
    newly_wrong=0,
    newly_right=0,
    agreement=1.0,
    max_shift=0.0,
    finite=True,
)


@pytest.mark.parametrize("examples", [1, 12, 40, 299, 359, 3000])
def test_without_disagreement_the_bound_has_a_closed_form(examples: int) -> None:
    expected = 100 * (1 - 0.05 ** (1 / examples))
    assert choose.drop_upper_bound(0, examples, 0.95) == pytest.approx(expected, rel=1e-9)


def test_the_bound_is_clopper_and_pearsons() -> None:
    """At the bound, seeing so few newly wrong examples has probability 1 - confidence."""
    from scipy import stats

    bound = choose.drop_upper_bound(7, 400, 0.95) / 100
    assert stats.binom.cdf(7, 400, bound) == pytest.approx(0.05, rel=1e-6)


def test_all_wrong_bounds_nothing() -> None:
    assert choose.drop_upper_bound(5, 5, 0.95) == 100.0


def test_one_point_needs_299_examples() -> None:
    needed = choose.examples_needed(1.0, 0.95)
    assert needed == 299
    assert choose.drop_upper_bound(0, needed, 0.95) <= 1.0 < choose.drop_upper_bound(0, needed - 1, 0.95)


def test_the_median_bound_is_an_order_statistic() -> None:
    """Of 15 rounds the 12th smallest covers the median with probability 0.982."""
    assert choose.median_upper_bound([float(number) for number in range(1, 16)], 0.95) == 12.0


def test_too_few_rounds_bound_nothing() -> None:
    assert choose.median_upper_bound([0.1, 0.1], 0.95) == float("inf")


def test_a_good_candidate_qualifies() -> None:
    verdict = choose.judge(GOOD, POLICY)
    assert verdict.qualified
    assert verdict.gain == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"finite": False}, "not all finite"),
        ({"newly_wrong": 30}, "may lose up to"),
        ({"newly_wrong": 30, "newly_right": 60}, "may lose up to"),
        ({"examples": 100}, "100 examples are too few to bound the drop by 1 points"),
        ({"latency_ratios": (1.0,) * 15}, "no improvement beyond noise"),
        ({"latency_ratios": (0.7,) * 8 + (1.3,) * 7}, "no improvement beyond noise"),
        ({"latency_ratios": (0.5,)}, "no improvement beyond noise"),
    ],
)
def test_a_bad_candidate_is_refused_with_the_reason(change: dict, reason: str) -> None:
    verdict = choose.judge(replace(GOOD, **change), POLICY)
    assert not verdict.qualified
    assert reason in verdict.reason


def test_each_objective_looks_at_its_own_figure() -> None:
    slow_and_small = replace(GOOD, latency_ratios=(2.0,) * 15, throughput_ratios=(0.5,) * 15)
    assert choose.judge(slow_and_small, replace(POLICY, objective="size")).qualified
    assert not choose.judge(slow_and_small, replace(POLICY, objective="throughput")).qualified
    assert not choose.judge(replace(GOOD, size_ratio=1.0), replace(POLICY, objective="size")).qualified


def test_the_best_qualified_goes_on() -> None:
    slower = replace(GOOD, name="float16", latency_ratios=(0.9,) * 15)
    best_but_bad = replace(GOOD, name="int8", latency_ratios=(0.1,) * 15, newly_wrong=100)
    verdicts = [choose.judge(item, POLICY) for item in (slower, GOOD, best_but_bad)]
    name, reason = choose.choose(verdicts, POLICY, "identity")
    assert name == "frozen"
    assert "of 2 qualified" in reason


def test_where_nothing_qualifies_the_original_goes_on() -> None:
    verdicts = [choose.judge(replace(GOOD, finite=False), POLICY)]
    assert choose.choose(verdicts, POLICY, "identity")[0] == "identity"


def test_figures_survive_json() -> None:
    import json
    from dataclasses import asdict

    assert Figures.from_json(json.dumps(asdict(GOOD))) == GOOD

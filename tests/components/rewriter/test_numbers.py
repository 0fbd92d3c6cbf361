"""How candidates of a regression are judged: by the growth of their errors."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from components.rewriter import bounds, measure
from components.rewriter.choose import Policy, choose, judge
from components.rewriter.figures import ErrorFigures, Figures

LABELS = [10.0, 20.0, 30.0, 40.0]


@pytest.fixture
def asked(make_example) -> measure.Questions:
    records = [make_example(price=value if index else int(value)) for index, value in enumerate(LABELS)]
    return measure.Questions(records, "price", [])


def figures(errors: ErrorFigures, **changes) -> Figures:
    values = {
        "name": "frozen", "examples": 500, "size_bytes": 500, "size_ratio": 0.5, "load_ms": 10.0,
        "latency_ms_p50": 1.0, "latency_ms_p95": 2.0, "throughput": 900.0, "latency_ratios": (0.8,) * 15,
        "throughput_ratios": (1.2,) * 15, "peak_memory_mb": 100.0, "accuracy": 0.0, "newly_wrong": 0,
        "newly_right": 0, "agreement": 1.0, "max_shift": 0.0, "batch_shift": 0.0, "finite": True,
        "errors": errors,
    }  # fmt: skip
    return Figures(**{**values, **changes})


def test_errors_are_those_of_the_label_and_rises_are_relative(asked) -> None:
    original = np.array([11.0, 21.0, 31.0, 41.0], np.float32)  # off by 1 each
    found = measure.number_quality(original + np.array([0, 0, 0, 0.4], np.float32), original, asked)
    assert found["errors"].mean_absolute == pytest.approx(1.1, rel=1e-5)
    rises = np.array([0.0, 0.0, 0.0, 40.0])
    assert found["errors"].rise == pytest.approx(rises.mean(), rel=1e-4)
    assert found["errors"].rise_error == pytest.approx(rises.std(ddof=1) / 2, rel=1e-4)
    assert found["max_shift"] == pytest.approx(0.4 / np.std(LABELS), rel=1e-4)
    assert found["agreement"] == 0.75 and found["finite"]


def test_answers_that_are_no_numbers_are_seen(asked) -> None:
    original = np.array(LABELS, np.float32)
    found = measure.number_quality(np.array([10, np.nan, 30, 40], np.float32), original, asked)
    assert found["finite"] is False
    assert judge(figures(errors=found["errors"], finite=False), Policy("size", 5, 0.95)).reason == (
        "its scores are not all finite numbers"
    )


def test_the_bound_is_one_sided_and_in_percent() -> None:
    assert bounds.mean_upper_bound(1.0, 0.5, 10**6, 0.95) == pytest.approx(1.0 + 1.6449 * 0.5, rel=1e-4)
    assert bounds.mean_upper_bound(1.0, 0.5, 5, 0.95) == pytest.approx(1.0 + 2.1318 * 0.5, rel=1e-4)
    assert bounds.mean_upper_bound(1.0, 0.0, 1, 0.95) == float("inf")
    good = judge(figures(ErrorFigures(2.0, 0.0, 0.0)), Policy("latency", 1.0, 0.95))
    assert (good.qualified, good.drop_bound) == (True, 0.0)
    bad = judge(figures(ErrorFigures(2.0, 0.5, 0.5)), Policy("latency", 1.0, 0.95))
    assert not bad.qualified
    assert bad.reason == "its mean absolute error may be up to 1.32 % larger, over 1 % (measured: +0.50 %)"


def test_figures_survive_json() -> None:
    original = figures(ErrorFigures(2.0, 0.5, 0.5))
    assert Figures.from_json(json.dumps(asdict(original))) == original


@pytest.mark.parametrize(("examples", "qualified"), [(1, False), (20, False), (298, False), (299, True)])
def test_few_examples_bound_no_error(examples: int, qualified: bool) -> None:
    """Of 20 examples, two candidates in three that are far off on one input in fifty would pass."""
    policy = Policy("latency", 1.0, 0.95)
    verdict = judge(figures(ErrorFigures(2.0, 0.0, 0.0), examples=examples), policy)
    assert verdict.qualified is verdict.sound is qualified
    if not qualified:
        assert f"{examples} examples are too few" in verdict.reason
        assert "299 could" in choose([verdict], policy)[1]

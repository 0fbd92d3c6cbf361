"""Which candidates the figures are of."""

from __future__ import annotations

from bench import rewriter
from components.rewriter import choose
from tests.components.rewriter.test_choose import GOOD, POLICY, replace


def test_the_fastest_need_not_be_smaller() -> None:
    by_size = replace(POLICY, objective="size")
    verdicts = [
        choose.judge(replace(GOOD, **change), by_size)
        for change in (
            {"name": "identity", "size_ratio": 1.0, "latency_ratios": (1.0,) * 15},
            {"name": "onnx", "size_ratio": 1.1, "latency_ratios": (0.2,) * 15},
            {"name": "float16", "size_ratio": 0.5, "latency_ratios": (0.9,) * 15},
            {"name": "tflite", "size_ratio": 0.1, "latency_ratios": (0.1,) * 15, "newly_wrong": 300},
        )
    ]
    smallest, fastest = rewriter.figures_of("digits", verdicts)
    assert (smallest.unit, fastest.unit) == ("kB, float16", "ms, onnx")

"""Which candidates the figures are of."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import prove_rewriter, rewriter
from components.rewriter import choose, rewrite, worker
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


@pytest.mark.parametrize("target", ["tf_serving", "triton"])
def test_the_choice_is_repeated_on_the_runs_own_target(tmp_path, monkeypatch, target) -> None:
    nowhere = Path("/nowhere")
    task = worker.Task("identity", "", "{}", nowhere, nowhere, "", "validation", "train", "label", [], 9)
    found = prove_rewriter.Trained("digits", task, POLICY, target, ["frozen"])
    monkeypatch.setattr(rewriter, "of_run", lambda *given: found)
    asked: list[rewrite.Job] = []

    def chosen(job: rewrite.Job) -> rewrite.Outcome:
        asked.append(job)
        return rewrite.Outcome("frozen", "", [])

    monkeypatch.setattr(rewrite, "rewrite", chosen)
    _, template = rewriter.job_of(tmp_path, "latest", tmp_path)
    assert rewriter.stability(template, 2) == {"frozen": 2}
    assert {(job.target, *(job.candidates or ()), job.policy.objective) for job in asked} == {
        (target, "frozen", "latency")
    }

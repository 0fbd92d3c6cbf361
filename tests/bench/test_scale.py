"""The line by which a row's cost is told from a job's."""

from __future__ import annotations

import pytest

from bench.scale import Measured, per_row


def measured(rows: int, cpu_s: float, workers: int = 1, stage: str = "Transform") -> Measured:
    return Measured("rows", stage, workers, rows, 9.0, cpu_s, 900.0, 90.0)


def test_a_job_s_cost_and_a_row_s() -> None:
    straight = [measured(rows, 5.0 + rows * 20e-6) for rows in (50_000, 200_000, 400_000)]
    others = [measured(400_000, 99.0, workers=2), measured(50_000, 1.0, stage="Evaluator")]
    (found,) = per_row([*straight, *others]).values()
    assert found["job_cpu_s"] == pytest.approx(5.0)
    assert found["row_cpu_us"] == pytest.approx(20.0)
    assert found["predicted"] == pytest.approx(found["measured"]) == pytest.approx(13.0)


def test_the_largest_size_has_no_part_in_its_prediction() -> None:
    costs = [(100_000, 3.0), (200_000, 4.0), (400_000, 10.0)]
    (found,) = per_row([measured(*cost) for cost in costs]).values()
    assert (found["predicted"], found["measured"]) == (pytest.approx(6.0), 10.0)

"""What the measurements share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import common
from bench.common import Figure, interleaved, report
from bench.load import timed_in_threads


def test_rounds_are_interleaved_and_turn() -> None:
    order: list[str] = []

    def measure(name: str) -> Callable[[], int]:
        def take() -> int:
            order.append(name)
            return len(order)

        return take

    values = interleaved(2, {"a": measure("a"), "b": measure("b"), "c": measure("c")})
    assert "".join(order) == "abcbca"
    assert values == {"a": [1, 6], "b": [2, 4], "c": [3, 5]}


@pytest.mark.parametrize(
    ("goal", "reached"), [(">= 2", True), (">= 2.5", False), ("<= 2", True), ("<= 1.9", False)]
)
def test_the_ratio_is_the_median_of_the_rounds(goal: str, reached: bool) -> None:
    figure = Figure.of("f", [10.0, 4.0, 6.0], [1.0, 2.0, 6.0], "ms", goal)
    assert (figure.ours, figure.other, figure.ratio, figure.reached) == (6.0, 2.0, 2.0, reached)


def test_reports_are_printed_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    report("n", [Figure.of("f", [1.0], [2.0], "ms", "<= 1")])
    written = json.loads((tmp_path / "results" / "n.json").read_text())
    assert set(written) == {"machine", "figures"}
    assert written["figures"] == [
        {"name": "f", "ours": 1.0, "other": 2.0, "unit": "ms", "ratio": 0.5, "goal": "<= 1", "reached": True}
    ]
    assert "<= 1" in capsys.readouterr().out


def test_load_counts_requests_and_tells_failures() -> None:
    calls: list[int] = []
    timing = timed_in_threads([lambda: calls.append(1)] * 3, 50)
    assert (len(calls), len(timing["latencies_s"])) == (50, 50)

    def fail() -> None:
        raise OSError("refused")

    with pytest.raises(RuntimeError, match="A request failed"):
        timed_in_threads([fail], 5)

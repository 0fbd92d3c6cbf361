"""Sums of what nodes cost."""

from __future__ import annotations

import json

import pytest

from pipelines.lineage.cost import costs


def test_every_execution_counts_once(source, recorded) -> None:
    runs = source.find_runs("", "", 100)
    executions = [
        item for run in runs for item in source.executions(source.run_executions(run.run_id)).values()
    ]
    wall = sum(item.properties["wall_s"] for item in executions)
    for by in ("node", "experiment", "day"):
        found = costs(source, runs, by)
        assert sum(cost.executed + cost.cached for cost in found) == len(executions)
        assert sum(cost.wall_s for cost in found) == pytest.approx(wall)
    assert {cost.name for cost in costs(source, runs, "experiment")} == {
        run.split("-")[0] for run in recorded.runs
    }


def test_the_command(workspace, headrace) -> None:
    done = headrace("cost", "--by", "node", "--runs", "5", "--output", "json", "--workspace", str(workspace))
    rows = json.loads(done.out)
    assert {row["name"] for row in rows} >= {"ExampleGen", "Trainer"}
    assert all(row["executed"] + row["cached"] == 5 for row in rows)
    table = headrace("cost", "--workspace", str(workspace))
    assert table.code == 0 and "in all" in table.out and "40 runs" in table.out
    nothing = headrace("cost", "--days", "1", "--workspace", str(workspace))
    assert "No run has begun" in nothing.out

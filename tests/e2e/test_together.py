"""Several whole runs at once on one workspace, each as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.lineage.store import Store
from tests.conftest import ROOT

RUNS = 8
EXPERIMENT = """
name: e%d
data: {source: digits}
model: {height: 8, width: 8, channels: 1, filters: [4]}
train: {epochs: 1}
rewrite: {candidates: [], max_drop: 100}
evaluation: {min_accuracy: 0.0}
"""


def together(folder: Path, count: int, *arguments: str) -> list[str]:
    """What each run printed; all begin at once, every second one of the same experiment."""
    for number in range(count):
        (folder / f"{number}.yaml").write_text(EXPERIMENT % (number // 2))
    command = [sys.executable, "-m", "pipelines.cli.main", "run"]
    started = [
        subprocess.Popen(
            [*command, str(folder / f"{number}.yaml"), "--workspace", str(folder / "w"), *arguments],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for number in range(count)
    ]  # fmt: skip
    try:
        printed = [process.communicate()[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert [process.returncode for process in started] == [0] * count, "\n".join(printed)
    return printed


def check(folder: Path, printed: list[str], count: int) -> None:
    with Store(folder / "w/metadata.db") as store:
        runs = store.runs()
        nodes = [node for run in runs for node in store.nodes(run.run_id)]
    assert [run.state for run in runs] == ["complete"] * count
    assert {node.state for node in nodes} <= {"complete", "cached"}
    logs = "".join(path.read_text(errors="replace") for path in (folder / "w/runs").rglob("*.log"))
    for sign in ("database is locked", "disk I/O error", "Traceback"):
        assert sign not in logs + "".join(printed), sign


@pytest.mark.slow
def test_eight_whole_runs_at_once(tmp_path) -> None:
    check(tmp_path, together(tmp_path, RUNS), RUNS)


@pytest.mark.e2e
def test_two_runs_that_begin_at_once(tmp_path) -> None:
    """A sample that is cheap enough for every day: the first node alone."""
    check(tmp_path, together(tmp_path, 2, "--to", "ExampleGen"), 2)

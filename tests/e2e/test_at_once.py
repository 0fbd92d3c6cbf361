"""Several runs on one workspace at once: of the very same, and of others."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from pipelines.lineage.database import Database
from pipelines.lineage.store import Store
from tests import warm
from tests.endure import kills, state

pytestmark = pytest.mark.e2e

SAME, OTHERS = 4, 4


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a command in a forked child of this process; returns its process id."""
    import pipelines.create
    import pipelines.runners.local  # noqa: F401

    def go(number: int, *arguments: str) -> int:
        pid = os.fork()
        if not pid:
            streams = {name: str(tmp_path / f"{name}-{number}") for name in ("out", "err")}
            warm.child({"args": list(arguments), "cwd": str(tmp_path), **streams})
        return pid

    return go


def test_eight_runs_at_once(start, tmp_path, write_tfrecord, make_example, png) -> None:
    """Four of the very same execute once between them; four others go on beside them; no lock error."""
    records = [make_example(image=png(level), label="ab"[level % 2]) for level in range(120)]
    path = write_tfrecord(tmp_path / "data" / "a.tfrecord", records)
    text = f"data: {{path: {path}}}\nmodel: {{height: 8, width: 8, channels: 1, filters: [8]}}\n"
    names = ["same"] * SAME + [f"other-{number}" for number in range(OTHERS)]
    files = [tmp_path / f"{name}.yaml" for name in names]
    # All are written before any run starts: a run must never read a file that is being written again.
    for file in files:
        file.write_text(text)
    pids = []
    for number, file in enumerate(files):
        arguments = ("run", str(file), "--workspace", str(tmp_path / "w"), "--to", "ExampleGen")
        pids.append(start(number, *arguments))
    assert _wait(pids) == [0] * len(pids), _said(tmp_path, "err")
    with Store(Database(tmp_path / "w" / "metadata.db")) as store:
        runs = store.runs()
        states = Counter((run.experiment, node.state) for run in runs for node in store.nodes(run.run_id))
    assert {run.state for run in runs} == {"complete"}
    assert states.pop(("same", "complete")) == 1
    assert states.pop(("same", "cached")) == SAME - 1
    assert set(states.values()) == {1} and {state for _, state in states} == {"complete"}
    assert "Waiting for another run of the very same" in _said(tmp_path, "out")
    assert list((tmp_path / "w" / "runs").glob("*/lease")) == []


def _wait(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def _whole(folder: Path, *more: str) -> list[str]:
    """A command that runs all of the digits chain, small."""
    overrides = [f"--set={key}={value}" for key, value in kills.SETTINGS.items()]
    return ["run", "digits", f"--workspace={folder / 'w'}", *overrides, *more]


@pytest.mark.slow
def test_two_whole_runs_of_the_very_same_at_once(start, tmp_path) -> None:
    """One carries it out, the other takes all of it from the cache; one version is pushed."""
    pids = [start(number, *_whole(tmp_path)) for number in range(2)]
    assert _wait(pids) == [0, 0], _said(tmp_path, "err") + _said(tmp_path, "out")
    runs = state.runs(tmp_path / "w")
    assert [run.state for run in runs] == ["complete"] * 2
    found = Counter(
        (node.node, node.state) for run in runs for node in state.nodes(tmp_path / "w", run.run_id)
    )
    assert {name: found[name, "complete"] for name in kills.NODES} == dict.fromkeys(kills.NODES, 1)
    assert {name: found[name, "cached"] for name in kills.NODES} == dict.fromkeys(kills.NODES, 1)
    assert [path.name for path in (tmp_path / "w" / "serving" / "digits").glob("[0-9]*")] == ["1"]
    assert state.active_executions(tmp_path / "w") == []


@pytest.mark.slow
def test_two_whole_runs_of_one_experiment_with_other_settings_at_once(start, tmp_path) -> None:
    """They go on side by side to their ends; what both do is shared or done twice, and each is whole."""
    pids = [start(seed, *_whole(tmp_path, f"--set=train.seed={seed}")) for seed in range(2)]
    codes = _wait(pids)
    runs = state.runs(tmp_path / "w")
    # Whichever comes second is judged against the first, and may not be as good.
    states = Counter(run.state for run in runs)
    assert set(states) <= {"complete", "refused"} and states["complete"], _said(tmp_path, "err")
    assert sorted(codes) == [0] * states["complete"] + [1] * states["refused"]
    for run in runs:
        assert state.faults(tmp_path / "w", run.run_id, set(kills.NODES)) == []
    pushed = [path.name for path in (tmp_path / "w" / "serving" / "digits").glob("[0-9]*")]
    assert len(pushed) == states["complete"]


def _said(folder: Path, stream: str) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob(f"{stream}-*")))

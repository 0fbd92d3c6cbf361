"""What becomes of runs and operations that died."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from pathlib import Path

import pytest
from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines import backups, leases, recovery, resuming
from pipelines.errors import WorkspaceError
from pipelines.lineage import store as lineage
from pipelines.lineage.store import Store
from pipelines.workspace import Workspace


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace.open(tmp_path / "w", create=True)


def begin(workspace: Workspace, run_id: str, started: float = 100.0) -> Path:
    """A run that was recorded as begun, and whose processes are gone."""
    folder = workspace.run_folder(run_id)
    folder.mkdir(parents=True)
    (folder / leases.FILE).write_text("{}")
    os.utime(folder / leases.FILE, (500.0, 500.0))
    with Store(workspace.database) as store:
        store.begin_run(run_id, "e", started, {"config": "{}"})
        _running_execution(store, run_id)
    return folder


def _running_execution(store: Store, run_id: str) -> None:
    raw = store._store
    kind = raw.put_execution_type(pb.ExecutionType(name="Node"))
    context = raw.put_context_type(pb.ContextType(name=lineage.TFX_RUN_TYPE))
    execution = pb.Execution(type_id=kind, last_known_state=pb.Execution.RUNNING)
    raw.put_execution(execution, [], [pb.Context(type_id=context, name=run_id)])


def states(workspace: Workspace) -> tuple[list[str], list[int]]:
    """States of runs, and of executions."""
    with Store(workspace.database) as store:
        executions = store._store.get_executions()
        return [run.state for run in store.runs()], [item.last_known_state for item in executions]


def test_a_dead_run_is_interrupted_and_nothing_runs_for_ever(workspace) -> None:
    folder = begin(workspace, "e-1")
    assert recovery.settle_dead(workspace) == ["e-1"]
    assert states(workspace) == (["interrupted"], [pb.Execution.CANCELED])
    assert not (folder / leases.FILE).exists()
    with Store(workspace.database) as store:
        run = store.run("e-1")
    assert run.ended == 500.0  # its last sign of life
    assert "headrace run --resume e-1" in run.details["error"]["remedy"]
    assert recovery.settle_dead(workspace) == []


def test_a_run_whose_killed_process_had_children_that_let_go_late_is_settled_before_it_goes_on(
    workspace, monkeypatch
) -> None:
    folder = begin(workspace, "e-1")
    held = os.open(folder / leases.FILE, os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert recovery.settle_dead(workspace) == []
    assert states(workspace) == (["running"], [pb.Execution.RUNNING])
    threading.Timer(0.2, lambda: os.close(held)).start()
    monkeypatch.setattr(resuming, "_unchanged", lambda *_: ("template", "key"))
    monkeypatch.setattr(resuming, "_part", lambda record, *_: record)
    monkeypatch.setattr(resuming, "carry_out", lambda record, *_: states(workspace))
    assert resuming.resume("e-1", workspace, Silent()) == (["interrupted"], [pb.Execution.CANCELED])
    with Store(workspace.database) as store:
        for _ in range(2):
            store.reopen_run("e-1", {"error": None})
        assert store.run("e-1").ended is None


class Silent:
    """A progress that tells nothing."""

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


def test_a_living_run_is_left_alone(workspace) -> None:
    folder = begin(workspace, "e-1")
    (folder / leases.FILE).unlink()
    with leases.taken(folder):
        assert recovery.settle_dead(workspace) == []
        with Store(workspace.database) as store:
            assert recovery.state_of(store.run("e-1"), workspace) == "running"
    assert states(workspace)[0] == ["running"]
    with Store(workspace.database) as store:
        assert recovery.state_of(store.run("e-1"), workspace) == "interrupted"


def test_a_run_that_died_before_it_was_recorded(workspace) -> None:
    folder = workspace.run_folder("e-1")
    folder.mkdir()
    (folder / leases.FILE).touch()
    assert recovery.settle_dead(workspace) == []
    assert not (folder / leases.FILE).exists()


def test_a_run_that_died_after_its_end_was_recorded(workspace) -> None:
    begin(workspace, "e-1")
    with Store(workspace.database) as store:
        store.end_run("e-1", "complete", 200.0, {})
    assert recovery.settle_dead(workspace) == []
    assert states(workspace)[0] == ["complete"]


@pytest.mark.parametrize("alive", [False, True])
def test_operations_that_were_killed_are_canceled(workspace, alive: bool) -> None:
    lock = recovery.operations_lock(workspace.root)
    with Store(workspace.database) as store:
        store.begin_operation(lineage.PRUNE, {"model": "m"}, {})
    lock.touch()
    if alive:
        with leases.shared(lock):
            recovery.settle_dead(workspace)
    else:
        recovery.settle_dead(workspace)
    expected = pb.Execution.RUNNING if alive else pb.Execution.CANCELED
    assert states(workspace)[1] == [expected]
    assert lock.exists() == alive


def test_the_latest_run_is_the_last_begun_though_the_clock_went_back(workspace) -> None:
    for number, started in enumerate((300.0, 200.0, 100.0)):
        with Store(workspace.database) as store:
            store.begin_run(f"e-{number}", "e", started, {})
    with Store(workspace.database) as store:
        assert store.find_run("latest").run_id == "e-2"


def test_a_damaged_record_is_told_with_the_copy_to_put_back(workspace) -> None:
    path = workspace.database.path
    begin(workspace, "e-1")
    kept = [backups.keep(path, 1000.0 + number) for number in range(5)]
    assert sum(file.exists() for file in kept) == backups.KEPT
    data = bytearray(path.read_bytes())
    data[4096:20000] = os.urandom(20000 - 4096)
    path.write_bytes(data)
    kept[-1].write_bytes(b"damaged too" * 1000)
    with pytest.raises(WorkspaceError, match="The metadata store is damaged") as raised:
        recovery.settle_dead(workspace)
    assert f"cp {kept[-2]} {path}" in raised.value.remedy
    path.write_bytes(kept[-2].read_bytes())
    assert recovery.settle_dead(workspace) == ["e-1"]


def test_without_a_copy_the_remedy_says_so(workspace) -> None:
    workspace.database.path.write_bytes(b"this is no database" * 500)
    with pytest.raises(WorkspaceError, match="not a database") as raised:
        backups.check(workspace.database.path)
    assert "Move it away" in raised.value.remedy


def test_a_copy_is_whole_while_the_record_is_written(workspace) -> None:
    begin(workspace, "e-1")
    copy = backups.keep(workspace.database.path, 0.0)
    with sqlite3.connect(copy) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [path.suffix for path in copy.parent.iterdir()] == [".db"]

"""Leases: a live run is told from a dead one, however it ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from pipelines import leases
from pipelines.errors import WorkspaceError
from tests.waiting import wait_until


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "runs" / "r-1"
    made.mkdir(parents=True)
    return made


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def forked(work) -> int:
    """Forks a child that runs `work` and waits to be killed, for a minute at most."""
    pid = os.fork()
    if not pid:
        try:
            signal.alarm(60)
            kept = work()  # a context manager that nobody refers to is closed
            signal.pause()
            del kept
        finally:
            os._exit(0)
    return pid


def hold(folder):
    """Takes a lease, for as long as the result is kept."""
    lease = leases.taken(folder)
    lease.__enter__()
    return lease


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize(
    ("error", "left"), [(WorkspaceError("full"), False), (OSError("full"), True), (KeyboardInterrupt(), True)]
)
def test_what_ended_unrecorded_is_left_to_be_settled(folder, error, left: bool) -> None:
    with pytest.raises(type(error)), leases.taken(folder):
        raise error
    assert not leases.is_alive(folder)
    assert leases.left_behind(folder.parent) == ([folder] if left else [])


def test_a_run_that_ends_leaves_nothing(folder) -> None:
    assert not leases.is_alive(folder)
    with leases.taken(folder):
        assert leases.is_alive(folder)
        assert leases.left_behind(folder.parent) == []
    assert not leases.is_alive(folder)
    assert list(folder.iterdir()) == []


def test_a_killed_run_is_found_dead_and_its_lease_can_be_taken(folder) -> None:
    pid = forked(lambda: hold(folder))
    wait_until(lambda: leases.is_alive(folder))
    with pytest.raises(WorkspaceError, match="still going on") as refused, leases.taken(folder, wait_s=0.2):
        pass
    assert f"process {pid} on" in refused.value.place
    end(pid)
    assert leases.left_behind(folder.parent) == [folder]
    with leases.taken(folder):
        assert leases.left_behind(folder.parent) == []


def test_a_run_lives_as_long_as_one_of_its_nodes(folder) -> None:
    """A node that outlives its killed program still writes."""
    node = folder.parent / "node"

    def program() -> object:
        lease = hold(folder)
        node.write_text(str(forked(lambda: None)))
        return lease

    pid = forked(program)
    wait_until(node.exists)
    wait_until(node.read_text)
    end(pid)
    assert leases.is_alive(folder)
    os.kill(int(node.read_text()), signal.SIGKILL)
    wait_until(lambda: not leases.is_alive(folder))


def test_the_end_of_a_run_frees_the_lease_though_a_child_has_it(folder) -> None:
    lease = hold(folder)
    pid = forked(lambda: None)
    lease.__exit__(None, None, None)
    try:
        assert not leases.is_alive(folder)
        with leases.taken(folder, wait_s=0.0):
            pass
    finally:
        end(pid)


def test_another_host_is_believed_while_it_gives_signs_of_life(folder) -> None:
    """Where no lock is shared between hosts, the time stamp tells."""
    file = folder / leases.FILE
    file.write_text(json.dumps({"pid": 7, "host": "elsewhere"}))
    clock = Clock(file.stat().st_mtime + leases.STALE_S - 1)
    assert leases.is_alive(folder, clock)
    clock.now += 2
    assert not leases.is_alive(folder, clock)
    # A clock that went back makes no dead run of a living one.
    clock.now = file.stat().st_mtime - 3600
    assert leases.is_alive(folder, clock)


@pytest.mark.parametrize(("step_s", "renewed"), [(1.0, False), (leases.BEAT_S, True), (-3600.0, True)])
def test_the_time_stamp_is_renewed_now_and_then(folder, step_s: float, renewed: bool) -> None:
    clock = Clock(1e9)
    with leases.taken(folder, clock) as lease:
        os.utime(folder / leases.FILE, (1.0, 1.0))
        clock.now += step_s
        lease.beat()
        assert ((folder / leases.FILE).stat().st_mtime > 1.0) == renewed


def test_a_shared_lock_keeps_settlers_away(tmp_path) -> None:
    path = tmp_path / "operations.lock"
    with leases.shared(path), leases.shared(path):
        assert leases.try_lock(path) is None
    descriptor = leases.try_lock(path)
    assert descriptor is not None
    os.close(descriptor)


def test_the_program_behind_a_lease_is_told_from_what_it_left(tmp_path: Path) -> None:
    assert not leases.holder_lives(tmp_path)
    with leases.taken(tmp_path):
        assert leases.holder_lives(tmp_path)
    ended = subprocess.Popen(["true"])
    ended.wait()
    told = {"pid": ended.pid, "host": socket.gethostname()}
    (tmp_path / leases.FILE).write_text(json.dumps(told))
    assert not leases.holder_lives(tmp_path)
    (tmp_path / leases.FILE).write_text(json.dumps({**told, "host": "elsewhere"}))
    assert leases.holder_lives(tmp_path)

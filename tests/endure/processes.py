"""Finds and kills processes of a run, by their ids."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import psutil

SERVER_LOG = "server.log"


def children(pid: int) -> list[psutil.Process]:
    """The nodes' processes: direct children of a run."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(psutil.Process(pid).children())
    return []


def servers(pid: int) -> list[psutil.Process]:
    """Model servers among all descendants of a run: those whose output goes to a server's log."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(OSError, psutil.Error):
                if Path(f"/proc/{process.pid}/fd/1").resolve().name == SERVER_LOG:
                    found.append(process)
    return found


def kill_possible(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def kill(pid: int) -> bool:
    """SIGKILL; False where it was gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def node_pid(run_pid: int, log: Path) -> int | None:
    """The child of a run whose output goes to a node's log."""
    for process in children(run_pid):
        with contextlib.suppress(OSError, psutil.Error):
            if Path(f"/proc/{process.pid}/fd/1").resolve() == log.resolve():
                return process.pid
    return None

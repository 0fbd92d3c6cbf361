"""Forked child processes with an output file of their own, that end with their parent.

child = fork(lambda: work(), log=path)      # work returns True when it went well
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from components import child_process, heap


def fork(work: Callable[[], bool], log: Path, *, dies_with_parent: bool = True) -> int:
    """Forks; the child runs `work`, exits 0 where it returned True, and never returns.

    The child leads a process group, so that it can be ended with all that it
    started, and ignores Ctrl-C: its parent decides. One that does not die with
    its parent must look after its end itself.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if dies_with_parent:
            child_process.die_with_parent()
        redirect_output(log)
        heap.settle()
        code = 0 if work() else 1
    except BaseException:
        with contextlib.suppress(OSError):
            traceback.print_exc()
    finally:
        child_process.leave(code)


def redirect_output(log: Path) -> None:
    """Sends this process's standard output and error, native code's too, to a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def describe_exit(status: int) -> str:
    """How a child ended, in words, from `os.waitpid`'s status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"its process was ended by signal {-code} ({signal.Signals(-code).name})"
    return f"its process ended with code {code}"


def terminate(pids: Iterable[int], grace_s: float = 5.0) -> None:
    """Ends process groups: SIGTERM, then SIGKILL for what is left after the grace time."""
    waiting = set(pids)
    for sent in (signal.SIGTERM, signal.SIGKILL):
        for pid in waiting:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, sent)
        deadline = time.monotonic() + grace_s
        while waiting and time.monotonic() < deadline:
            waiting = {pid for pid in waiting if not _reaped(pid)}
            time.sleep(0.05)


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True

"""Functions in processes of their own: what they used is counted, how they failed is told."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from components import subprocesses
from components.fork_server import ServerGoneError


def burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def burn_and_fail(seconds: float) -> None:
    burn(seconds)
    raise ValueError("no good")


def test_cpu_and_memory_of_workers_are_counted() -> None:
    before = subprocesses.spent()
    subprocesses.run(burn, 0.3, limits=subprocesses.Limits(60.0))
    after = subprocesses.spent()
    assert after.cpu_s - before.cpu_s >= 0.3
    assert after.peak_memory_mb > 1


def test_a_worker_that_fails_says_how_and_counts_too() -> None:
    before = subprocesses.spent()
    with pytest.raises(subprocesses.WorkerFailed, match="ValueError: no good"):
        subprocesses.run(burn_and_fail, 0.2, limits=subprocesses.Limits(60.0))
    assert subprocesses.spent().cpu_s - before.cpu_s >= 0.2


def test_a_worker_that_takes_too_long() -> None:
    with pytest.raises(subprocesses.WorkerFailed, match="longer than"):
        subprocesses.run(burn, 60.0, limits=subprocesses.Limits(0.5))


def test_a_forked_process_has_workers_of_its_own() -> None:
    """A parent's server is no child of its children, which could not wait for it."""
    subprocesses.run(burn, 0.0, limits=subprocesses.Limits(60.0))
    child = os.fork()
    if child == 0:
        try:
            subprocesses.run(burn, 0.0, limits=subprocesses.Limits(60.0))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    subprocesses.run(burn, 0.0, limits=subprocesses.Limits(60.0))


def die(sent: int) -> None:
    os.kill(os.getpid(), sent)
    time.sleep(60.0)


def swallow(mebibytes: int) -> None:
    held = bytearray(os.urandom(1 << 20) * mebibytes)
    time.sleep(60.0)
    del held


@pytest.mark.parametrize(
    ("function", "argument", "limits", "cause"),
    [
        (burn_and_fail, 0.0, subprocesses.Limits(60.0), "raised"),
        (die, signal.SIGSEGV, subprocesses.Limits(60.0), "crashed"),
        (die, signal.SIGKILL, subprocesses.Limits(60.0), "killed"),
        (die, signal.SIGTERM, subprocesses.Limits(60.0), "killed"),
        (burn, 60.0, subprocesses.Limits(0.5), "time"),
        (swallow, 512, subprocesses.Limits(60.0, 300.0), "memory"),
    ],
)
def test_a_failure_says_what_caused_it(function, argument, limits, cause) -> None:
    """Our own limits kill a process as well, which is not taken for a kill from outside."""
    with pytest.raises(subprocesses.WorkerFailed) as raised:
        subprocesses.run(function, argument, limits=limits)
    assert raised.value.cause == cause


class _Server:
    """Answers, or is gone, which it says once all who ask have come."""

    def __init__(self, gone: threading.Barrier | None = None) -> None:
        self.closed, self._gone = False, gone

    def start(self, work, argument, output):
        if self._gone is not None:
            self._gone.wait(10.0)
        if self._gone is not None or self.closed:
            raise ServerGoneError("gone")
        return 7, None

    def close(self) -> None:
        self.closed = True


def test_two_threads_that_find_the_server_gone_start_one_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second must not close the one that the first has started."""
    gone, started = _Server(threading.Barrier(2)), []

    def spawn(modules: list[str]) -> _Server:
        started.append(_Server())
        return started[-1]

    monkeypatch.setattr(subprocesses, "_server", gone)
    monkeypatch.setattr(subprocesses.ForkServer, "spawn", spawn)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: subprocesses.start(burn, 0.0).pid, range(2)))
    assert found == [7, 7]
    assert gone.closed
    assert [server.closed for server in started] == [False]

"""Runs a function in a process of its own, so that a crash, a hang or a leak there stays there.

    run(worker.build, task, limits=Limits(seconds=600))

Processes are forked from a server that has imported the function's module and
done nothing else: each starts fresh, without paying for importing TensorFlow
again. The server is a fork of a process that called `serve_from_here`, or else
an interpreter of its own, started when it is first needed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import psutil

from components.fork_server import ForkServer, ServerGoneError, Talk

Argument = TypeVar("Argument")


@dataclass(frozen=True)
class Spent:
    """CPU seconds of workers that ended by themselves, and the largest one's peak memory in MiB."""

    cpu_s: float = 0.0
    peak_memory_mb: float = 0.0


_spent = Spent()
_spent_lock = threading.Lock()

_server: ForkServer | None = None
_server_lock = threading.Lock()

_WATCH_S = 0.25
_KILL_S = 10.0


def _unlock() -> None:
    """In a forked process: whoever held a lock is not here."""
    global _spent_lock, _server_lock
    _spent_lock, _server_lock = threading.Lock(), threading.Lock()


os.register_at_fork(after_in_child=_unlock)


@dataclass(frozen=True)
class Limits:
    """What a worker may take.

    Attributes:
        seconds: of wall clock.
        memory_mb: resident memory in MiB; None for no limit.
    """

    seconds: float
    memory_mb: float | None = None


def serve_from_here() -> None:
    """Makes the server of this process's workers, and of its forked children's, a fork of it as it is now.

    To be called once it has imported what workers need and little else, while
    it has one thread only. Does nothing where there is a server already.
    """
    global _server
    with _server_lock:
        if _server is None:
            _server = ForkServer.fork()


def spent() -> Spent:
    """What this process's workers used so far; they are the server's children, so the system cannot tell."""
    return _spent


Cause = Literal["raised", "crashed", "killed", "time", "memory"]
"""Of a failure: an exception; a crash; a signal from outside; a limit on time or memory."""

_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)


class WorkerFailed(Exception):
    """A worker process that ended badly; the message says how, in words.

    Attributes:
        cause: what ended it. `killed` says nothing of the function: somebody, or a
            system that is short of memory, ended its process.
    """

    def __init__(self, message: str, cause: Cause = "raised") -> None:
        super().__init__(message)
        self.cause = cause


class Process:
    """A function at work in a process of its own."""

    def __init__(self, pid: int, talk: Talk) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._talk = talk
        self._told: dict[str, Any] = {}

    def poll(self, timeout_s: float = 0.0) -> int | None:
        """Its exit code, negative for a signal; None where it is still running after the time-out."""
        deadline = time.monotonic() + timeout_s
        while self.returncode is None:
            try:
                message = self._talk.heard(max(0.0, deadline - time.monotonic()))
            except ServerGoneError:
                message = {"exit": -signal.SIGKILL}  # its workers go with it
            if message is None:
                break
            self._told.update(message)
            if "exit" in message:
                self.returncode = int(message["exit"])
                _add(Spent(self._told.get("cpu_s", 0.0), self._told.get("peak_memory_mb", 0.0)))
                self._talk.close()
        return self.returncode

    @property
    def failure(self) -> str:
        """How a function failed, in words; empty where it returned, or has not said."""
        return str(self._told.get("failure", ""))

    def ended_by_itself(self) -> bool:
        """Whether the function came to an end, good or bad."""
        return "failure" in self._told

    def terminate(self, grace_s: float = _KILL_S) -> None:
        """Ends it and waits for that: SIGTERM, and SIGKILL after the grace time."""
        for sent, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, _KILL_S)):
            if self.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, sent)
                self.poll(wait_s)


def start(function: Callable[[Argument], None], argument: Argument, *, output: int | None = None) -> Process:
    """Calls `function(argument)` in a process of its own.

    Args:
        function: importable by name.
        argument: picklable.
        output: a file's number for standard output and error; this process's own where None.
    """
    for _ in range(2):
        server = _running_server(function)
        try:
            return Process(*server.start(_call, (function, argument), output))
        except ServerGoneError:
            _forget_server(server)
    raise WorkerFailed("no process could be forked for it", "killed")


def _running_server(function: Callable[..., None]) -> ForkServer:
    global _server
    with _server_lock:
        if _server is None:
            _server = ForkServer.spawn([function.__module__])
        return _server


def _forget_server(gone: ForkServer) -> None:
    """Another thread may have seen the same, and have started a new one meanwhile, which stays."""
    global _server
    with _server_lock:
        if _server is gone:
            gone.close()
            _server = None


def run(function: Callable[[Argument], None], argument: Argument, *, limits: Limits) -> None:
    """Calls `function(argument)` in a process of its own and waits for its end.

    Args:
        function: importable by name.
        argument: picklable.
        limits: on its time and memory.

    Raises:
        WorkerFailed: it raised, passed a limit, or was killed.
    """
    process = start(function, argument)
    try:
        failure = _outcome(process, limits)
    finally:
        process.terminate(grace_s=0.0)
    if failure is not None:
        raise failure


def _add(used: Spent) -> None:
    global _spent
    with _spent_lock:
        _spent = Spent(_spent.cpu_s + used.cpu_s, max(_spent.peak_memory_mb, used.peak_memory_mb))


def _resident_mb(pid: int) -> float:
    try:
        return float(psutil.Process(pid).memory_info().rss / 2**20)
    except psutil.NoSuchProcess:
        return 0.0  # it has just ended, and its answer is on the way


def _call(given: tuple[Callable[[Any], None], Any]) -> Mapping[str, Any]:
    """What a worker does: the function, and then tells how it failed and what it used."""
    function, argument = given
    failure = ""
    try:
        function(argument)
    except BaseException as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines()
        failure = f"{type(error).__name__}: {lines[0][:_LONGEST] if lines else ''}"
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "code": int(bool(failure)),
        "failure": failure,
        "cpu_s": own.ru_utime + own.ru_stime,
        "peak_memory_mb": own.ru_maxrss / 1024,
    }


_LONGEST = 10_000


def _outcome(process: Process, limits: Limits) -> WorkerFailed | None:
    """How it failed, or None."""
    deadline = time.monotonic() + limits.seconds
    # Watched, not limited by the system: a limit on address space would stop
    # TensorFlow, which reserves far more than it uses.
    while process.poll(min(_WATCH_S, max(0.0, deadline - time.monotonic()))) is None:
        if time.monotonic() >= deadline:
            return WorkerFailed(f"it took longer than {limits.seconds:g} s", "time")
        if limits.memory_mb is not None and _resident_mb(process.pid) > limits.memory_mb:
            return WorkerFailed(f"it took more than {limits.memory_mb:g} MiB of memory", "memory")
    if process.ended_by_itself():
        return WorkerFailed(process.failure) if process.failure else None
    code = process.returncode or 0
    how = f"its process ended with code {code}" + (f" (signal {-code})" if code < 0 else "")
    return WorkerFailed(how, "killed" if code in _FROM_OUTSIDE else "crashed")

"""Runs a function in a process of its own, so that a crash, a hang or a leak there stays there.

    run(worker.build, task, limits=Limits(seconds=600))

Processes are forked from a server that has imported the function's module and
done nothing else: each starts fresh, without paying for importing TensorFlow
again. (The server is the standard library's; it ends with this process.)
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver as forkserver
import os
import resource
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeVar

import psutil

Argument = TypeVar("Argument")


@dataclass(frozen=True)
class Spent:
    """CPU seconds of workers that ended by themselves, and the largest one's peak memory in MiB."""

    cpu_s: float = 0.0
    peak_memory_mb: float = 0.0


_spent = Spent()
_spent_lock = threading.Lock()

_WATCH_S = 0.25


def _forget_server() -> None:
    """In a forked process: the server is its parent's, so it could not wait for it; it starts its own."""
    server: Any = forkserver._forkserver
    if server._forkserver_pid is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None


os.register_at_fork(after_in_child=_forget_server)


@dataclass(frozen=True)
class Limits:
    """What a worker may take.

    Attributes:
        seconds: of wall clock.
        memory_mb: resident memory in MiB; None for no limit.
    """

    seconds: float
    memory_mb: float | None = None


def spent() -> Spent:
    """What this process's workers used so far; they are the server's children, so the system cannot tell."""
    return _spent


class WorkerFailed(Exception):
    """A worker process that ended badly; the message says how, in words."""


def run(function: Callable[[Argument], None], argument: Argument, *, limits: Limits) -> None:
    """Calls `function(argument)` in a process of its own and waits for its end.

    Args:
        function: importable by name.
        argument: picklable.
        limits: on its time and memory.

    Raises:
        WorkerFailed: it raised, passed a limit, or was killed.
    """
    context = multiprocessing.get_context("forkserver")
    # Counts for the first process only, which starts the server.
    context.set_forkserver_preload([function.__module__])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(function, argument, sender))
    process.start()
    sender.close()
    try:
        failure, used = _outcome(process, receiver, limits)
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        receiver.close()
    _add(used)
    if failure:
        raise WorkerFailed(failure)


def _add(used: Spent) -> None:
    global _spent
    with _spent_lock:
        _spent = Spent(_spent.cpu_s + used.cpu_s, max(_spent.peak_memory_mb, used.peak_memory_mb))


def _resident_mb(pid: int | None) -> float:
    try:
        return float(psutil.Process(pid).memory_info().rss / 2**20)
    except psutil.NoSuchProcess:
        return 0.0  # it has just ended, and its answer is on the way


def _usage() -> Spent:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return Spent(own.ru_utime + own.ru_stime, own.ru_maxrss / 1024)


def _call(function: Callable[[Argument], None], argument: Argument, sender: Connection) -> None:
    try:
        function(argument)
        sender.send(("", _usage()))
    except BaseException as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines()
        sender.send((f"{type(error).__name__}: {lines[0] if lines else ''}", _usage()))
    sys.stdout.flush()
    sys.stderr.flush()
    # TensorFlow's libraries have crashed in the interpreter's shutdown.
    os._exit(0)


def _outcome(
    process: multiprocessing.process.BaseProcess, receiver: Connection, limits: Limits
) -> tuple[str, Spent]:
    """How it failed, or an empty text; and what it used, where it could still say."""
    deadline = time.monotonic() + limits.seconds
    # Watched, not limited by the system: a limit on address space would stop
    # TensorFlow, which reserves far more than it uses.
    while not receiver.poll(min(_WATCH_S, max(0.0, deadline - time.monotonic()))):
        if time.monotonic() >= deadline:
            return f"it took longer than {limits.seconds:g} s", Spent()
        if limits.memory_mb is not None and _resident_mb(process.pid) > limits.memory_mb:
            return f"it took more than {limits.memory_mb:g} MiB of memory", Spent()
    try:
        text, used = receiver.recv()
    except EOFError:
        process.join()
        signalled = process.exitcode is not None and process.exitcode < 0
        how = f" (signal {-process.exitcode})" if signalled and process.exitcode else ""
        return f"its process ended with code {process.exitcode}{how}", Spent()
    return str(text), used

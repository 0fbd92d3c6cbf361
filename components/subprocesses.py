"""Runs a function in a process of its own, so that a crash, a hang or a leak there stays there.

    run(worker.build, task, seconds=600)

Processes are forked from a server that has imported the function's module and
done nothing else: each starts fresh, without paying for importing TensorFlow
again. (The server is the standard library's; it ends with this process.)
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TypeVar

Argument = TypeVar("Argument")


@dataclass(frozen=True)
class Spent:
    """CPU seconds of workers that ended by themselves, and the largest one's peak memory in MiB."""

    cpu_s: float = 0.0
    peak_memory_mb: float = 0.0


_spent = Spent()


def spent() -> Spent:
    """What this process's workers used so far; they are the server's children, so the system cannot tell."""
    return _spent


class WorkerFailed(Exception):
    """A worker process that ended badly; the message says how, in words."""


def run(function: Callable[[Argument], None], argument: Argument, *, seconds: float) -> None:
    """Calls `function(argument)` in a process of its own and waits for its end.

    Args:
        function: importable by name.
        argument: picklable.
        seconds: time limit.

    Raises:
        WorkerFailed: it raised, took longer than `seconds`, or was killed.
    """
    context = multiprocessing.get_context("forkserver")
    # Counts for the first process only, which starts the server.
    context.set_forkserver_preload([function.__module__])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(function, argument, sender))
    process.start()
    sender.close()
    try:
        failure, used = _outcome(process, receiver, seconds)
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
    _spent = Spent(_spent.cpu_s + used.cpu_s, max(_spent.peak_memory_mb, used.peak_memory_mb))


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
    process: multiprocessing.process.BaseProcess, receiver: Connection, seconds: float
) -> tuple[str, Spent]:
    """How it failed, or an empty text; and what it used, where it could still say."""
    if not receiver.poll(seconds):
        return f"it took longer than {seconds:g} s", Spent()
    try:
        text, used = receiver.recv()
    except EOFError:
        process.join()
        signalled = process.exitcode is not None and process.exitcode < 0
        how = f" (signal {-process.exitcode})" if signalled and process.exitcode else ""
        return f"its process ended with code {process.exitcode}{how}", Spent()
    return str(text), used

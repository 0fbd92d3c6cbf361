"""Runs a function in a process of its own, so that a crash, a hang or a leak there stays there.

    run(worker.build, task, seconds=600)

Processes are forked from a server that has imported the function's module and
done nothing else: each starts fresh, without paying for importing TensorFlow
again. (The server is the standard library's; it ends with this process.)
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TypeVar

Argument = TypeVar("Argument")


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
        failure = _outcome(process, receiver, seconds)
    finally:
        if process.is_alive():
            process.kill()
        process.join()
        receiver.close()
    if failure:
        raise WorkerFailed(failure)


def _call(function: Callable[[Argument], None], argument: Argument, sender: Connection) -> None:
    try:
        function(argument)
        sender.send("")
    except BaseException as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines()
        sender.send(f"{type(error).__name__}: {lines[0] if lines else ''}")
    sys.stdout.flush()
    sys.stderr.flush()
    # TensorFlow's libraries have crashed in the interpreter's shutdown.
    os._exit(0)


def _outcome(process: multiprocessing.process.BaseProcess, receiver: Connection, seconds: float) -> str:
    if not receiver.poll(seconds):
        return f"it took longer than {seconds:g} s"
    try:
        return str(receiver.recv())
    except EOFError:
        process.join()
        return f"its process ended with code {process.exitcode}" + (
            f" (signal {-process.exitcode})" if process.exitcode and process.exitcode < 0 else ""
        )

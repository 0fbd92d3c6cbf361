"""Runs one of our worker modules in a process of its own.

run_module("components.rewriter.worker", ["build", "task.json"], seconds=600)
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence


class WorkerFailed(Exception):
    """A worker process that ended badly; the message is its last line, or the signal."""


def run_module(module: str, arguments: Sequence[str], *, seconds: float) -> None:
    """Runs `python -m module arguments` to its end.

    Raises:
        WorkerFailed: it took longer than `seconds`, was killed, or failed.
    """
    # Workers see the same code as this process, wherever it was started from.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise WorkerFailed(f"it took longer than {seconds:g} s") from error
    print(done.stdout, flush=True)  # into the node's log
    if done.returncode < 0:
        raise WorkerFailed(f"its process was ended by signal {-done.returncode}")
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        raise WorkerFailed(lines[-1] if lines else f"its process ended with code {done.returncode}")

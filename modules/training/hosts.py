"""Training on several hosts: the first has the whole run, the others train along.

    hosts.announce("modules.image.trainer.run_fn", fn_args, os.environ)     # in the Trainer, on the first
    python -m modules.training.hosts FILE                                   # on each of the others

All have TF_CONFIG, as a training job of Kubeflow sets it, and
HEADRACE_TRAINING_CALL, the path of a file that all of them see: in it the
first says what is to be called. It is written before the first's port opens, so
a file beside an open port is never one that an earlier training left.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from modules.errors import TrainingError
from modules.training import cluster, workers

VARIABLE = "HEADRACE_TRAINING_CALL"
WAIT_S = 24 * 3600.0
"""The data part of a run comes before its training."""

_POLL_S = 0.5


def announce(function: str, fn_args: Any, environment: Mapping[str, str]) -> None:
    """Tells the other hosts of TF_CONFIG what to call; for one host, or another than the first, nothing.

    Raises:
        TrainingError: a bad TF_CONFIG.
        OSError: the file cannot be written.
    """
    path = environment.get(VARIABLE)
    if not path:
        return
    members = cluster.read(environment)
    if members is not None and members.is_chief:
        workers.write_call(Path(path), function, fn_args)


def follow(
    path: Path,
    environment: Mapping[str, str],
    wait_s: float = WAIT_S,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Waits for the first host to train, and trains along.

    Args:
        path: the file that the first host writes.
        environment: has TF_CONFIG.
        wait_s: at most so long.
        clock: seconds.
        pause: waits so many seconds.

    Raises:
        TrainingError: no TF_CONFIG, this is the first host, the first did not
            come, or what the training raises.
    """
    members = cluster.read(environment)
    if members is None or members.is_chief:
        raise TrainingError(
            "This is for the hosts that train along, and TF_CONFIG names this one as the first, or none",
            place="environment, TF_CONFIG",
            remedy="On the first host, run the experiment: headrace run.",
        )
    deadline = clock() + wait_s
    while not (cluster.unreachable([members.workers[0]]) == [] and path.is_file()):
        if clock() > deadline:
            raise TrainingError(
                f"The first host did not begin to train within {wait_s:g} s",
                place=f"{members.workers[0]}, {path}",
                remedy=f"Look at its log; {VARIABLE} must be a file that all hosts see.",
            )
        pause(_POLL_S)
    workers.main(str(path))


if __name__ == "__main__":
    follow(Path(sys.argv[1]), os.environ)

"""Puts a scheduler together from an experiment.

scheduler(experiment, workspace, tell).forever()
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pipelines.config import Experiment
from pipelines.retraining import observe
from pipelines.retraining.chain import LocalChain
from pipelines.retraining.notify import Notifier
from pipelines.retraining.scheduler import Scheduler
from pipelines.run import Progress
from pipelines.telemetry.notices import WARNING, Notice, Tell
from pipelines.telemetry.progress import Notices
from pipelines.workspace import Workspace


def scheduler(
    experiment: Experiment,
    workspace: Workspace,
    tell: Tell,
    *,
    looks_only: bool = False,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Scheduler:
    """A scheduler of this machine.

    Args:
        experiment: what is trained, and when.
        workspace: where.
        tell: takes what happens.
        looks_only: never to run anything, so that drift is not measured.
        clock: seconds since the epoch.
        sleep: waits for so many seconds.

    Raises:
        ConfigError: a variable that should hold an address does not.
    """
    if not looks_only:
        # Decisions go where runs are recorded.
        workspace.settle(experiment.metadata)

    def progress() -> Progress:
        return Notices(tell)

    def unheard(line: str) -> None:
        facts = {"experiment": experiment.name}
        tell(Notice("retraining.notification_failed", line, clock(), WARNING, facts))

    drift: Any = observe.ignore_drift
    if experiment.retraining.on_drift and not looks_only:
        drift = observe.SpanDrift(experiment, workspace, progress)
    notify = Notifier(
        None if looks_only else experiment.retraining.notify,
        experiment.name,
        clock=clock,
        sleep=sleep,
        log=unheard,
    )
    chain = LocalChain(experiment, workspace, progress, clock)
    return Scheduler(experiment, workspace, chain, drift, notify, tell, clock=clock, sleep=sleep)

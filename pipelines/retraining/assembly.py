"""Puts a scheduler together from an experiment.

scheduler(experiment, workspace, print).forever()
"""

from __future__ import annotations

import glob
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines import spans
from pipelines.config import Experiment
from pipelines.errors import ConfigError
from pipelines.retraining import observe, watching
from pipelines.retraining.chain import LocalChain
from pipelines.retraining.notify import Notifier
from pipelines.retraining.predictions import PredictionDrift
from pipelines.retraining.scheduler import Scheduler
from pipelines.run import Progress
from pipelines.runners.events import ENDED, RETRYING, Event
from pipelines.workspace import Workspace


class Lines:
    """A run's progress as lines; implements `pipelines.run.Progress`."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def begun(self, run_id: str) -> None:
        self._tell(f"  run {run_id}")

    def loading(self) -> None:
        return None

    def waiting(self) -> None:
        return None

    def planned(self, nodes: list[str]) -> None:
        return None

    def event(self, event: Event) -> None:
        if event.state in (*ENDED, RETRYING):
            self._tell(f"  {event.node} {event.state}")

    def tick(self) -> None:
        return None


def scheduler(
    experiment: Experiment,
    workspace: Workspace,
    tell: Callable[[str], None],
    *,
    looks_only: bool = False,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> Scheduler:
    """A scheduler of this machine.

    Args:
        experiment: what is trained, and when.
        workspace: where.
        tell: takes lines.
        looks_only: never to run anything; drift is told as it was last measured.
        clock: seconds since the epoch.
        sleep: waits for so many seconds.

    Raises:
        ConfigError: the settings ask for what cannot be, or a variable that should hold an
            address does not.
    """
    _check(experiment)
    if not looks_only:
        # Decisions go where runs are recorded.
        workspace.settle(experiment.metadata)

    def progress() -> Progress:
        return Lines(tell)

    drift: Any = observe.ignore_drift
    if experiment.retraining.on_drift:
        drift = observe.SpanDrift(experiment, workspace, progress, looks_only=looks_only)
    notify = Notifier(
        None if looks_only else experiment.retraining.notify,
        experiment.name,
        clock=clock,
        sleep=sleep,
        log=tell,
    )
    chain = LocalChain(experiment, workspace, progress)
    return Scheduler(
        experiment,
        workspace,
        chain,
        drift,
        notify,
        tell,
        clock=clock,
        sleep=sleep,
        predictions=PredictionDrift(experiment, workspace, looks_only=looks_only),
    )


def _check(experiment: Experiment) -> None:
    """Refuses settings that would never do what they say."""
    told, path = experiment.retraining, experiment.data.path or ""
    if told.watch is not None and watching.url_of(experiment) is None:
        raise ConfigError(
            "A server is to be watched, and none is named",
            place="retraining.watch",
            remedy='Give retraining.watch.url, such as "http://127.0.0.1:8501", or push.server.',
        )
    for name in ("on_new_span", "on_drift"):
        if getattr(told, name) and not spans.has_spans(path):
            raise ConfigError(
                f"Spans are to be watched, and the data has none. Received: data.path={path!r}",
                place=f"retraining.{name}",
                remedy='Put {SPAN} or {YYYY}-{MM}-{DD} in data.path, as in "logs/{YYYY}-{MM}-{DD}.csv".',
            )
    if told.golden and not glob.glob(str(Path(told.golden).expanduser())):
        raise ConfigError("There is no golden set", place=f"retraining.golden: {told.golden}")

"""Puts a scheduler together from an experiment.

scheduler(experiment, workspace, tell).forever()
"""

from __future__ import annotations

import glob
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines import remote, spans
from pipelines.config import Experiment
from pipelines.errors import ConfigError
from pipelines.evaluation import is_regression
from pipelines.retraining import observe, watching
from pipelines.retraining.chain import LocalChain
from pipelines.retraining.notify import Notifier
from pipelines.retraining.predictions import PredictionDrift
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
        return Notices(tell)

    def unheard(line: str) -> None:
        facts = {"experiment": experiment.name}
        tell(Notice("retraining.notification_failed", line, clock(), WARNING, facts))

    drift: Any = observe.ignore_drift
    if experiment.retraining.on_drift:
        drift = observe.SpanDrift(experiment, workspace, progress, looks_only=looks_only)
    notify = Notifier(
        None if looks_only else experiment.retraining.notify,
        experiment.name,
        clock=clock,
        sleep=sleep,
        log=unheard,
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
    if told.live is not None and is_regression(experiment):
        raise ConfigError(
            "The accuracy in service is to be watched, and the model predicts a number",
            place="retraining.live",
            remedy="Leave it out; retraining.predictions and max_age_days serve numbers, too.",
        )
    golden = told.golden
    if golden and not remote.is_remote(golden) and not glob.glob(str(Path(golden).expanduser())):
        raise ConfigError("There is no golden set", place=f"retraining.golden: {golden}")

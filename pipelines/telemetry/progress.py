"""Turns what a run tells into notices, and passes it on to several at once.

run(experiment, workspace, options, Several(ConsoleProgress(console), Notices(tell)))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.errors import HeadraceError
from pipelines.runners.events import FAILED, RETRYING, RUNNING, Event
from pipelines.telemetry.notices import ERROR, INFO, WARNING, Notice, Tell
from pipelines.workspace import experiment_of

if TYPE_CHECKING:
    from pipelines.run import Outcome, Progress

_LEVELS = {"complete": INFO, "refused": WARNING, "interrupted": WARNING}


class Notices:
    """Implements `pipelines.run.Progress`: every step becomes a notice."""

    def __init__(self, tell: Tell, clock: Callable[[], float] = time.time) -> None:
        self._tell = tell
        self._about: dict[str, Any] = {"experiment": None, "run": None}
        self._clock = clock
        self._said: set[str] = set()

    def begun(self, run_id: str) -> None:
        self._said = set()
        self._about = {"experiment": experiment_of(run_id), "run": run_id}
        self._say("run.begun", f"Run {run_id}")

    def loading(self) -> None:
        self._say_once("run.loading", "Loading TFX")

    def waiting(self) -> None:
        self._say_once("run.waiting", "Waiting for another run of the very same")

    def planned(self, nodes: list[str]) -> None:
        self._say("run.planned", f"{len(nodes)} nodes to run", nodes=nodes)

    def event(self, event: Event) -> None:
        if event.state == RUNNING:
            self._say("node.begun", f"{event.node} running", at=event.at, node=event.node)
        elif event.state == RETRYING:
            told = {"node": event.node, "seconds": event.seconds, "error": _fields(event.error)}
            self._say("node.retrying", f"{event.node} retrying", WARNING, at=event.at, **told)
        else:
            self._say(
                "node.ended",
                f"{event.node} {event.state}",
                ERROR if event.state == FAILED else INFO,
                at=event.at,
                node=event.node,
                state=event.state,
                seconds=event.seconds,
                error=_fields(event.error),
                kind=event.kinds[0] if event.kinds else None,
            )

    def tick(self) -> None:
        return None

    def ended(self, outcome: Outcome, error: HeadraceError | None) -> None:
        summary = outcome.summary
        self._say(
            "run.ended",
            f"Run {outcome.run_id} {outcome.state}",
            _LEVELS.get(outcome.state, ERROR),
            state=outcome.state,
            seconds=outcome.seconds,
            executed=list(summary.executed),
            cached=list(summary.cached),
            accuracy=summary.accuracy,
            mean_absolute_error=summary.error,
            version=summary.pushed_version or None,
            pushed=summary.pushed_now,
            in_service=summary.in_service or None,
            refusal=summary.refusal or None,
            error=_fields(vars(error)) if error else None,
        )

    def _say_once(self, event: str, message: str) -> None:
        if event not in self._said:
            self._said.add(event)
            self._say(event, message)

    def _say(
        self, event: str, message: str, level: str = INFO, at: float | None = None, **facts: Any
    ) -> None:
        moment = self._clock() if at is None else at
        self._tell(Notice(event, message, moment, level, {**self._about, **facts}))


def _fields(error: Mapping[str, Any] | None) -> dict[str, str] | None:
    return {key: error.get(key, "") for key in ("headline", "place", "remedy")} if error else None


class Several:
    """Implements `pipelines.run.Progress` by passing everything on."""

    def __init__(self, *others: Progress) -> None:
        self._others = others

    def begun(self, run_id: str) -> None:
        for other in self._others:
            other.begun(run_id)

    def loading(self) -> None:
        for other in self._others:
            other.loading()

    def waiting(self) -> None:
        for other in self._others:
            other.waiting()

    def planned(self, nodes: list[str]) -> None:
        for other in self._others:
            other.planned(nodes)

    def event(self, event: Event) -> None:
        for other in self._others:
            other.event(event)

    def tick(self) -> None:
        for other in self._others:
            other.tick()

    def ended(self, outcome: Outcome, error: HeadraceError | None) -> None:
        for other in self._others:
            other.ended(outcome, error)

"""Notices of made-up runs, as the real ones are made: through `Notices`."""

from __future__ import annotations

from pipelines.errors import HeadraceError, NodeFailedError
from pipelines.run import Outcome
from pipelines.runners.events import Event
from pipelines.summary import Summary
from pipelines.telemetry.notices import Notice
from pipelines.telemetry.progress import Notices

RUN = "digits-20260102-030405-ab12"


class Clock:
    """Seconds since the epoch, as they are set."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def notices_of_a_run(state: str = "complete") -> list[Notice]:
    """A run of three nodes: one cached, one that fails once and is tried again, one that runs.

    It begins at second 1,000,000 and takes 60 s; with `failed`, the last node fails.
    """
    found: list[Notice] = []
    clock = Clock()
    progress = Notices(found.append, clock)
    progress.begun(RUN)
    progress.loading()
    progress.planned(["ExampleGen", "Trainer", "Pusher"])
    for event in _events(failing=state == "failed"):
        clock.now = event.at
        progress.event(event)
    clock.now = 1_000_060.0
    error: HeadraceError | None = None
    if state == "failed":
        error = NodeFailedError("Node Pusher failed: OSError", place="a.log", remedy="Look there.")
    summary = Summary(
        accuracy=0.9,
        pushed_version="3",
        in_service="3",
        executed=("Trainer", "Pusher"),
        cached=("ExampleGen",),
    )
    progress.ended(Outcome(RUN, state, 60.0, summary), error)
    return found


def _events(*, failing: bool) -> list[Event]:
    error = {"headline": "Node Trainer crashed", "place": "t.log", "remedy": "Look there."}
    made = [
        Event("ExampleGen", "running", 1_000_001.0),
        Event("ExampleGen", "cached", 1_000_001.5, 0.5),
        Event("Trainer", "running", 1_000_002.0),
        Event("Trainer", "failed", 1_000_012.0, 10.0, error, kinds=("crash",)),
        Event("Trainer", "retrying", 1_000_012.0, 3.0, error),
        Event("Trainer", "running", 1_000_015.0),
        Event("Trainer", "complete", 1_000_055.0, 40.0),
        Event("Pusher", "running", 1_000_055.0),
    ]
    if failing:
        wrong = {"headline": "Node Pusher failed: OSError", "place": "a.log", "remedy": "Look there."}
        return [*made, Event("Pusher", "failed", 1_000_056.0, 1.0, wrong, kinds=("OSError", "Exception"))]
    return [*made, Event("Pusher", "complete", 1_000_056.0, 1.0)]

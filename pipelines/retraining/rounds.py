"""A round: train, compare, promote, watch; each step recorded before the next begins.

    carry_out(record, desk)

A round that was killed is carried out again from the step it was in: training
goes on in its run, comparing is repeated, pushing finds what is in service
already, watching goes on for what is left of its time. What the steps do
stands behind `Chain`, so that this file is the order of things and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from pipelines.errors import CodeChangedError, HeadraceError, InputError, InterruptedRunError, NodeFailedError
from pipelines.remote_failures import UnreachableError
from pipelines.retraining.ledger import Ledger, Record
from pipelines.retraining.policy import Outcome, Span
from pipelines.retraining.settings import Retraining

Notify = Callable[[str, Record], None]

_RENEWALS = 3
"""A round begins anew at most so often: where data never rests, it has to be looked at."""


class RefusedError(Exception):
    """A candidate that the chain does not push; the message says why."""


class StaleError(Exception):
    """What a push would put into service is not the candidate that was compared."""


@dataclass(frozen=True)
class Trained:
    """What came of a training run.

    Attributes:
        servable: folder of the candidate.
        in_service: whether it is the very one that is in service.
        refusals: why evaluation refused it, in sentences.
    """

    servable: str
    in_service: bool = False
    refusals: Sequence[str] = ()


class Chain(Protocol):
    """What a round does, on one experiment in one workspace."""

    def spans(self) -> list[Span]:
        """What the experiment would read now."""
        ...

    def state(self, numbers: Sequence[int]) -> str:
        """The state of the files of some spans, or of all where none is named; see `spans.state_of`."""
        ...

    def bad_spans(self, records: Sequence[Record]) -> list[int]:
        """Spans whose data was bad in an earlier round, and has not changed."""
        ...

    def named(self, place: str) -> list[int]:
        """Spans whose files a data error's place names."""
        ...

    def without(self, skipped: Sequence[int]) -> Chain:
        """The same without some spans."""
        ...

    def train(self, run_id: str, begun: Callable[[str], None], budget_s: float | None) -> Trained:
        """The chain as far as the Evaluator; goes on with `run_id` where one is given."""
        ...

    def compare(self, record: Record, budget_s: float | None) -> list[str]:
        """Why the candidate is worse than what is in service, in sentences; empty where it is not."""
        ...

    def counts(self) -> dict[str, float]:
        """The server's counts now; see `watching.Sample`."""
        ...

    def push(self, record: Record) -> int:
        """Validates the candidate in a server and puts it in service; returns its version.

        Raises:
            RefusedError: it was not let through.
            StaleError: data, code or settings have changed since it was trained.
        """
        ...

    def in_service(self) -> int:
        """The version in service; 0 for none."""
        ...

    def fault(self, record: Record) -> str:
        """What is wrong with the version in service since it was promoted; empty for nothing."""
        ...

    def unseen(self, record: Record) -> str:
        """Why the watch says little about the version in service; empty where it says enough."""
        ...

    def roll_back(self, record: Record, reason: str) -> None:
        """Puts the version from before the round back in service."""
        ...


@dataclass(frozen=True)
class Desk:
    """What a round is carried out with; `until` is when its budget ends."""

    chain: Chain
    ledger: Ledger
    settings: Retraining
    notify: Notify
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    tick: Callable[[], None] = field(default=lambda: None)
    until: float | None = None

    def left_s(self) -> float | None:
        """Seconds of the round's budget that are left; None without one.

        Raises:
            NodeFailedError: none are.
        """
        if self.until is None:
            return None
        left = self.until - self.clock()
        if left <= 0:
            raise over_budget(self.settings)
        return left


def over_budget(settings: Retraining) -> NodeFailedError:
    """For a round that has taken too long."""
    return NodeFailedError(
        f"The round took longer than its {settings.budget_minutes:g} minutes",
        place="retraining.budget_minutes",
        remedy="Raise it; finished nodes are cached.",
    )


def carry_out(record: Record, desk: Desk) -> None:
    """Takes a round from the phase it is in to its end.

    Raises:
        InterruptedRunError: it was interrupted, and goes on at the next call.
        Exception: a fault of ours; the round has failed by it.
    """
    minutes = desk.settings.budget_minutes
    desk = replace(desk, until=None if minutes is None else desk.clock() + 60.0 * minutes)
    if record.phase == "training" and not record.run_id:
        record.skipped = desk.chain.bad_spans(desk.ledger.records())
    desk = replace(desk, chain=desk.chain.without(record.skipped))
    try:
        while not record.outcome:
            _PHASES[record.phase](record, desk)
    except (InterruptedRunError, KeyboardInterrupt):
        raise
    except RefusedError as refusal:
        _end(record, desk, "refused", str(refusal))
    except UnreachableError as error:
        # It may be there again in a moment: no finding about the data.
        _end(record, desk, "failed", f"{error.headline} [{error.place}]")
    except InputError as error:
        # Data that cannot be used is a finding, not a failure: trying again would find it again.
        record.bad = desk.chain.named(error.place)
        record.data = desk.chain.state(record.blamed)
        _end(record, desk, "bad_data", f"{error.headline} [{error.place}]")
    except CodeChangedError:
        raise  # this process has to be started again, and goes on with the round then
    except HeadraceError as error:
        _end(record, desk, "failed", f"{error.headline} [{error.place}]")
    except Exception as error:
        # Counted and told like any failure: else whoever restarts the scheduler meets it without end.
        _end(record, desk, "failed", f"unexpected: {type(error).__name__}")
        raise


def _train(record: Record, desk: Desk) -> None:
    record.spans = desk.chain.spans()
    record.before = desk.chain.in_service()
    desk.ledger.save(record)

    def begun(run_id: str) -> None:
        record.run_id = run_id
        desk.ledger.save(record)

    trained = desk.chain.train(record.run_id, begun, desk.left_s())
    if trained.in_service:
        _end(record, desk, "unchanged", "the same model came out as is in service")
    elif trained.refusals:
        _end(record, desk, "refused", "; ".join(trained.refusals))
    elif earlier := _rolled_back(trained.servable, desk):
        reason = f"the same model was rolled back after {earlier.trigger}: {earlier.detail}"
        _end(record, desk, "refused", reason)
    else:
        record.servable = trained.servable
        _go_on(record, desk, "comparing")


def _rolled_back(servable: str, desk: Desk) -> Record | None:
    """The round in which this very model was taken back: another cause on the same data makes it again."""
    taken_back = [item for item in desk.ledger.records() if item.outcome == "rolled_back"]
    return next((item for item in taken_back if item.servable == servable), None)


def _compare(record: Record, desk: Desk) -> None:
    # Somebody may have rolled back or forward while it was trained.
    record.before = desk.chain.in_service()
    faults = desk.chain.compare(record, desk.left_s())
    if faults:
        _end(record, desk, "refused", "; ".join(faults))
    else:
        _go_on(record, desk, "pushing")


def _push(record: Record, desk: Desk) -> None:
    desk.left_s()  # what is being pushed is not interrupted any more
    if not record.counts or desk.chain.in_service() == record.before:
        # Not again after a push that was killed: requests to the new version would count as from before it.
        record.counts = desk.chain.counts()
        desk.ledger.save(record)
    try:
        record.version = desk.chain.push(record)
    except StaleError:
        _begin_anew(record, desk)
        return
    record.watched_from = desk.clock()
    record.untold.append("promotion")
    _go_on(record, desk, "watching")
    tell(record, desk.ledger, desk.notify)


def _begin_anew(record: Record, desk: Desk) -> None:
    """Else a span that came meanwhile would be trained on and go out without having been compared."""
    if record.renewed >= _RENEWALS:
        raise NodeFailedError(
            f"Data, code or settings changed {record.renewed + 1} times between training and push",
            place=record.trigger,
            remedy="See what writes them; finished nodes are cached.",
        )
    record.renewed += 1
    record.run_id, record.servable, record.counts = "", "", {}
    _go_on(record, desk, "training")


def _watch(record: Record, desk: Desk) -> None:
    watch = desk.settings.watch
    until = record.watched_from + (60.0 * watch.minutes if watch else 0.0)
    while watch is not None:
        fault = desk.chain.fault(record)
        if desk.chain.in_service() != record.version:
            _end(record, desk, "rolled_back", "another version was put in service meanwhile")
            return
        if fault:
            desk.chain.roll_back(record, fault)
            _end(record, desk, "rolled_back", fault)
            return
        left = until - desk.clock()
        if left <= 0:
            break
        desk.tick()
        desk.sleep(min(watch.every_s, left))
    against = f" instead of {record.before}" if record.before else ""
    unseen = desk.chain.unseen(record) if watch else ""
    remark = f"; {unseen}" if unseen else ""
    _end(record, desk, "promoted", f"version {record.version} is in service{against}{remark}")


_PHASES: dict[str, Callable[[Record, Desk], None]] = {
    "training": _train,
    "comparing": _compare,
    "pushing": _push,
    "watching": _watch,
}

_EVENTS: dict[Outcome, str] = {
    "failed": "failure",
    "bad_data": "refusal",
    "refused": "refusal",
    "rolled_back": "rollback",
}


def _go_on(record: Record, desk: Desk, phase: str) -> None:
    record.phase = phase  # type: ignore[assignment]
    desk.ledger.save(record)


def _end(record: Record, desk: Desk, outcome: Outcome, detail: str) -> None:
    if record.skipped:
        detail += f"; without span {', '.join(map(str, record.skipped))}, whose data was bad"
    if outcome == "failed" and not record.version:
        record.run_id = ""  # the next attempt begins anew, with what is cached
        record.counts = {}
    if outcome in _EVENTS:
        record.untold.append(_EVENTS[outcome])
    if outcome == "failed" and len(desk.ledger.failures()) + 1 >= desk.settings.backoff.stop_after:
        record.untold.append("stopped")
    desk.ledger.end(record, outcome, detail, desk.clock())
    tell(record, desk.ledger, desk.notify)


def tell(record: Record, ledger: Ledger, notify: Notify) -> None:
    """Tells people what they are still to be told of a round.

    What is to be told was saved with what it is about, so that a kill in between loses none of it; one
    between telling and noting that it was told makes it told twice.
    """
    for event in list(record.untold):
        told = record
        if event == "stopped":
            told = replace(record, detail=f"{len(ledger.failures())} failures in a row: {record.detail}")
        notify(event, told)
        record.untold.remove(event)
        ledger.save(record)

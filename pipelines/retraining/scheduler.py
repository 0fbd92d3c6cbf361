"""The loop around the policy: look, decide, carry out, wait.

    scheduler.once()                  # one decision, carried out
    scheduler.forever()               # until it is interrupted

Whatever it knows lies in the workspace, so that it may be killed at any time
and started anew, by itself or by a cron job.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipelines import recovery
from pipelines.config import Experiment
from pipelines.errors import InputError, WorkspaceError
from pipelines.retraining import observe, policy, rounds
from pipelines.retraining.ledger import Ledger, Record
from pipelines.retraining.policy import Decision
from pipelines.retraining.rounds import Chain, Desk, Notify
from pipelines.telemetry.notices import DEBUG, ERROR, INFO, WARNING, Notice, Tell
from pipelines.workspace import Workspace

_POLL_S = 5.0
"""How often a waiting scheduler gives a sign of life."""


_LEVELS = {"failed": ERROR, "rolled_back": ERROR, "refused": WARNING, "bad_data": WARNING}


@dataclass(frozen=True)
class Step:
    """What one look came to: a decision, and the round it led to, if any."""

    decision: Decision
    record: Record | None = None


@dataclass(frozen=True)
class Scheduler:
    """Retrains one experiment in one workspace.

    Attributes:
        experiment: what is trained, and when.
        workspace: where.
        chain: what a round does.
        drift: how far a span has moved.
        notify: who is told.
        tell: takes what is decided and what comes of it.
        clock: seconds since the epoch.
        sleep: waits for so many seconds.
        predictions: how far those of the version in service have moved.
    """

    experiment: Experiment
    workspace: Workspace
    chain: Chain
    drift: observe.Drift
    notify: Notify
    tell: Tell
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    predictions: observe.Predictions = observe.ignore_predictions

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.workspace, self.experiment.name)

    def look(self) -> Decision:
        """What would be done now; nothing is changed."""
        return self._decide(sets_up=False)

    def _decide(self, *, sets_up: bool) -> Decision:
        now = self.clock()
        told = (self.experiment, self.workspace, self.ledger, self.drift, self.predictions)
        state = observe.observe(*told, now, sets_up=sets_up)
        return policy.decide(self.experiment.retraining, state, now)

    def once(self) -> Step:
        """Decides, and carries out what was decided; first of all a round that was cut short.

        Raises:
            WorkspaceError: another scheduler is at work.
        """
        ledger = self.ledger
        with ledger.held() as lease:
            recovery.settle_dead(self.workspace)
            for record in ledger.records():
                rounds.tell(record, ledger, self.notify)
            unfinished = ledger.unfinished()
            if unfinished is not None:
                decision = Decision("run", f"goes on: {unfinished.reason}", unfinished.trigger)
                self._carry_out(unfinished, decision, lease.beat)
                return Step(decision, unfinished)
            decision = self._decide(sets_up=True)
            ledger.presence.looked(self.clock())
            self._say_looked(decision)
            if decision.action == "wait":
                return Step(decision)
            now = self.clock()
            if decision.action == "skip":
                told = {"round": decision.trigger, "reason": decision.reason}
                self._say("retraining.skipped", f"skipped: {decision.reason}", **told)
                passed_over = ledger.skip(decision.trigger, decision.reason, now, decision.spans)
                return Step(decision, passed_over)
            record = ledger.open(decision.trigger, decision.reason, now)
            self._carry_out(record, decision, lease.beat)
            return Step(decision, record)

    def forever(self) -> None:
        """Decides again and again, and waits in between for what comes next."""
        said = ""
        while True:
            try:
                decision = self.once().decision
            except (WorkspaceError, InputError) as error:
                decision = Decision("wait", f"{error.headline} [{error.place}]", until=self.clock() + 60.0)
            if decision.action != "wait":
                said = ""
                continue
            if decision.reason != said:
                said = decision.reason
                self.say_waiting(decision)
            self._wait(decision.until)

    def say_waiting(self, decision: Decision) -> None:
        """Tells that nothing is to be done now, and why."""
        message = f"waiting: {decision.reason}"
        self._say("retraining.waiting", message, reason=decision.reason, until=decision.until)

    def _say_looked(self, decision: Decision) -> None:
        """For metrics: that it looked, what at, and how retraining stands."""
        failures = len(self.ledger.failures())
        self._say(
            "retraining.looked",
            f"{decision.action}: {decision.reason}",
            DEBUG,
            action=decision.action,
            reason=decision.reason,
            until=decision.until,
            failures=failures,
            stopped=failures >= self.experiment.retraining.backoff.stop_after,
            in_service=self.chain.in_service(),
        )

    def _say(self, event: str, message: str, level: str = INFO, **facts: Any) -> None:
        about = {"experiment": self.experiment.name}
        self.tell(Notice(event, message, self.clock(), level, {**about, **facts}))

    def _wait(self, until: float) -> None:
        with self.ledger.presence.waiting() as beat:
            while (left := until - self.clock()) > 0:
                beat()
                self.sleep(min(left, _POLL_S))

    def _carry_out(self, record: Record, decision: Decision, beat: Callable[[], None]) -> None:
        began = self.clock()
        about: dict[str, Any] = {"round": record.trigger, "reason": decision.reason}
        message = f"round {record.trigger}: {decision.reason}"
        self._say("retraining.round_begun", message, **about, attempt=record.attempts)
        desk = Desk(
            self.chain,
            self.ledger,
            self.experiment.retraining,
            self.notify,
            clock=self.clock,
            sleep=self.sleep,
            tick=beat,
        )
        rounds.carry_out(record, desk)
        self._say(
            "retraining.round_ended",
            f"round {record.trigger}: {record.outcome}: {record.detail}",
            _LEVELS.get(record.outcome, INFO),
            **about,
            outcome=record.outcome,
            detail=record.detail,
            version=record.version or None,
            run=record.run_id or None,
            seconds=self.clock() - began,
        )

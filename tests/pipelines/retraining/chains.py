"""A chain that is made up, and a clock: what schedulers are tested on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pipelines.errors import NodeFailedError
from pipelines.retraining.ledger import Record
from pipelines.retraining.policy import Span
from pipelines.retraining.rounds import RefusedError, StaleError, Trained


class Killed(BaseException):
    """Stands for a SIGKILL: nothing catches it."""


@dataclass
class FakeChain:
    """Does what it is told, and counts it; `kill_at` is how many calls it lives through."""

    present: list[Span] = field(default_factory=lambda: [(1, 0)])
    trained: Trained = field(default_factory=lambda: Trained("/servable"))
    worse: Sequence[str] = ()
    faults: list[str] = field(default_factory=list)
    error: Exception | None = None
    versions: list[int] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    kill_at: int = 10**6
    pushed: bool = False
    refusal: str = ""
    stale: int = 0
    stuck: int = 0
    samples: int = 0
    dies_pushed: bool = False
    counted: dict[str, float] = field(default_factory=dict)
    remark: str = ""
    budgets: list[float | None] = field(default_factory=list)
    takes: Callable[[], None] = lambda: None
    data: Callable[[], str] = lambda: ""
    skipped: list[int] = field(default_factory=list)

    def _count(self, name: str) -> None:
        if len(self.calls) >= self.kill_at:
            raise Killed
        self.calls.append(name)

    def spans(self) -> list[Span]:
        self._count("spans")
        return self.present

    def state(self, numbers: Sequence[int]) -> str:
        return self.data()

    def bad_spans(self, records: Sequence[Record]) -> list[int]:
        return sorted({span for record in records for span in record.bad})

    def named(self, place: str) -> list[int]:
        return [int(place)] if place.isdigit() else []

    def without(self, skipped: Sequence[int]) -> FakeChain:
        self.skipped = list(skipped)
        return self

    def train(self, run_id: str, begun: Callable[[str], None], budget_s: float | None) -> Trained:
        begun(run_id or "run-1")
        self._count(f"train {run_id}".strip())
        if self.error is not None:
            raise self.error
        return self.trained

    def compare(self, record: Record, budget_s: float | None) -> list[str]:
        self._count("compare")
        self.budgets.append(budget_s)
        self.takes()
        return list(self.worse)

    def counts(self) -> dict[str, float]:
        self.samples += 1
        return {"answered": float(self.samples)}

    def push(self, record: Record) -> int:
        self._count("push")
        if self.refusal:
            raise RefusedError(self.refusal)
        if self.stale:
            self.stale -= 1
            raise StaleError
        if not self.pushed:  # as the Pusher: what is in service already is not pushed again
            self.versions.append(len(self.versions) + 1)
            self.pushed = True
        if self.dies_pushed:
            self.dies_pushed = False
            raise Killed
        return self.versions[-1]

    def in_service(self) -> int:
        return self.versions[-1] if self.versions else 0

    def fault(self, record: Record) -> str:
        self._count("fault")
        self.counted = dict(record.counts)
        return self.faults.pop(0) if self.faults else ""

    def unseen(self, record: Record) -> str:
        return self.remark

    def roll_back(self, record: Record, reason: str) -> None:
        self._count("roll_back")
        if self.stuck:
            self.stuck -= 1
            raise NodeFailedError("It cannot be rolled back")
        self.versions.append(record.before)


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

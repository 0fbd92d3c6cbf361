"""What retraining remembers: rounds, since when, and who is at it.

    with ledger.held():                      # one scheduler at a time carries out a round
        record = ledger.open(trigger, reason, now)
        ledger.save(record)

A file per round in `<workspace>/retraining/<experiment>/`, written whole or
not at all, so that a killed round goes on where it was; and an execution per
decision in ML Metadata, which is what history and lineage are read from.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pipelines import leases
from pipelines.errors import WorkspaceError
from pipelines.lineage.store import RETRAINING, Store
from pipelines.retraining.policy import FINAL, Outcome, Round, Span
from pipelines.retraining.presence import Presence
from pipelines.workspace import Workspace

Phase = Literal["training", "comparing", "pushing", "watching", "ended"]

_SETUP = "setup.json"
_LAST_NODES_S = 30.0


@dataclass
class Record:
    """A round.

    Attributes:
        trigger: id of its cause.
        reason: in words.
        began: of the first attempt, in seconds since the epoch.
        attempts: how often it was begun.
        failed: when attempts at it failed, in seconds since the epoch.
        phase: where it is.
        execution_id: of its decision in ML Metadata.
        run_id: of the training run.
        servable: folder of the candidate.
        spans: what it sees, as (span, version).
        bad: spans that its data error names.
        data: state of their files, or of all where none is named; see `spans.state_of`.
        skipped: spans that it leaves out, since they were bad.
        before: version in service when it began; 0 for none.
        version: that was pushed; 0 for none.
        watched_from: when the version went into service.
        counts: the server's, from before it did; see `watching.Sample`.
        outcome: empty while it goes on.
        detail: what came of it, in words.
        ended: of the last attempt.
        untold: events that people are still to be told of.
        renewed: how often this attempt began anew, since data, code or settings had changed under it.
    """

    trigger: str
    reason: str
    began: float
    attempts: int = 1
    failed: list[float] = field(default_factory=list)
    phase: Phase = "training"
    execution_id: int = 0
    run_id: str = ""
    servable: str = ""
    spans: list[Span] = field(default_factory=list)
    data: str = ""
    bad: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    before: int = 0
    version: int = 0
    watched_from: float = 0.0
    counts: dict[str, float] = field(default_factory=dict)
    outcome: Outcome = ""
    detail: str = ""
    ended: float = 0.0
    untold: list[str] = field(default_factory=list)
    renewed: int = 0

    @property
    def blamed(self) -> list[int]:
        """Spans whose data is bad, or among whose data the bad is."""
        return self.bad or [span for span, _ in self.spans]

    def as_round(self) -> Round:
        return Round(self.trigger, self.outcome, self.ended, frozenset(self.spans))


class Ledger:
    """The rounds of one experiment."""

    def __init__(self, workspace: Workspace, experiment: str) -> None:
        self._workspace = workspace
        self._experiment = experiment
        self._folder = workspace.root / "retraining" / experiment
        self._rounds = self._folder / "rounds"
        self.presence = Presence(self._folder)

    def set_up(self, now: float, older: Sequence[Span], *, keep: bool) -> tuple[float, frozenset[Span]]:
        """When retraining was set up here, and spans that were too old then: now, where it was not yet.

        Args:
            now: seconds since the epoch.
            older: spans that are too old now.
            keep: note both, where it was not set up yet.
        """
        found = self._setup()
        if "began" not in found:
            found |= {"began": now, "older": list(older)}
            if keep:
                self._write(self._folder / _SETUP, json.dumps(found))
        return float(found["began"]), frozenset((span, version) for span, version in found.get("older", ()))

    def reset(self, now: float) -> None:
        """Failures until now no longer count."""
        self._write(self._folder / _SETUP, json.dumps({**self._setup(), "reset": now}))

    def records(self) -> list[Record]:
        """All rounds, in the order of their beginnings.

        Raises:
            WorkspaceError: one cannot be read.
        """
        found = [self._read(path) for path in sorted(self._rounds.glob("*.json"))]
        return sorted(found, key=lambda record: (record.began, record.trigger))

    def unfinished(self) -> Record | None:
        """The round that was begun and has not ended."""
        return next((record for record in self.records() if not record.outcome), None)

    def failures(self) -> list[Record]:
        """Rounds that failed in a row since the last that did not, or the last reset."""
        since = float(self._setup().get("reset", 0.0))
        records = self.records()
        fine = [item.ended for item in records if item.outcome not in ("failed", "skipped", "")]
        since = max([since, *fine])
        # Each attempt counts, by the time at which it failed: a reset lies between some of them.
        failed = [(at, record) for record in records for at in record.failed if at > since]
        return [record for _, record in sorted(failed, key=lambda item: item[0])]

    def find(self, trigger: str) -> Record | None:
        path = self._path(trigger)
        return self._read(path) if path.exists() else None

    def open(self, trigger: str, reason: str, now: float) -> Record:
        """Begins a round, or another attempt at one that failed."""
        record = self.find(trigger)
        if record is None:
            record = Record(trigger, reason, now)
        elif record.outcome == "bad_data":
            # Bad data that is tried again has been changed, and is as good as new.
            record = Record(trigger, reason, now)
        elif record.outcome == "failed":
            record.attempts += 1
            # What was pushed is in service, and its watch is not over.
            record.phase = "watching" if record.version else "training"
            record.outcome, record.detail, record.renewed = "", "", 0
        record.execution_id = self._decide(record, "run")
        self.save(record)
        return record

    def skip(self, trigger: str, reason: str, now: float, spans: Sequence[Span] = ()) -> Record:
        """Notes that a cause is passed over, and the spans with it."""
        record = Record(trigger, reason, now, phase="ended", outcome="skipped", ended=now, detail=reason)
        record.spans = list(spans)
        record.execution_id = self._decide(record, "skip")
        self._end_decision(record)
        self.save(record)
        return record

    def end(self, record: Record, outcome: Outcome, detail: str, now: float) -> None:
        """Ends a round; the file last, so that one that is cut short here ends again."""
        record.outcome, record.detail, record.ended, record.phase = outcome, detail, now, "ended"
        if outcome == "failed":
            record.failed.append(now)
        self._end_decision(record)
        self.save(record)

    def save(self, record: Record) -> None:
        self._write(self._path(record.trigger), json.dumps(asdict(record), indent=1))

    @contextlib.contextmanager
    def held(self) -> Iterator[leases.Lease]:
        """One scheduler at a time; goes with the process that holds it, however that ends.

        Raises:
            WorkspaceError: another scheduler is at work.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        # Nodes of a scheduler that was killed hold it a little longer.
        wait_s = 0.0 if leases.holder_lives(self._folder) else _LAST_NODES_S
        with contextlib.ExitStack() as stack:
            try:
                lease = stack.enter_context(leases.taken(self._folder, wait_s=wait_s))
            except WorkspaceError as error:
                raise WorkspaceError(
                    f"Another scheduler retrains {self._experiment!r}",
                    place=leases.describe(self._folder),
                    remedy="Wait for it, or end it.",
                ) from error
            stack.enter_context(_beating(lease))
            yield lease

    def _decide(self, record: Record, action: str) -> int:
        properties: dict[str, str | int | float] = {
            "experiment": self._experiment,
            "action": action,
            "trigger": record.trigger,
            "reason": record.reason,
            "at": record.began,
            "attempt": record.attempts,
        }
        with Store(self._workspace.database) as store:
            # No round goes on when another is decided on: what counts as running was killed before
            # its file was written.
            store.cancel_operations([RETRAINING], experiment=self._experiment)
            return store.begin_operation(RETRAINING, properties, {})

    def _end_decision(self, record: Record) -> None:
        told: dict[str, str | int | float] = {
            "outcome": record.outcome,
            "detail": record.detail,
            "run": record.run_id,
            "version": record.version,
            "ended": record.ended,
        }
        with Store(self._workspace.database) as store:
            store.annotate_execution(record.execution_id, told)
            store.end_operation(record.execution_id, ok=record.outcome in FINAL)

    def _setup(self) -> dict[str, Any]:
        path = self._folder / _SETUP
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def _path(self, trigger: str) -> Path:
        return self._rounds / f"{re.sub(r'[^A-Za-z0-9._-]', '-', trigger)}.json"

    def _read(self, path: Path) -> Record:
        try:
            raw = json.loads(path.read_text())
            return Record(**{**raw, "spans": [(span, version) for span, version in raw["spans"]]})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise WorkspaceError(
                f"A round's record cannot be read: {error}",
                place=str(path),
                remedy="Move it away: its cause is then dealt with once more.",
            ) from error

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.part")
        scratch.write_text(text)
        scratch.replace(path)


@contextlib.contextmanager
def _beating(lease: leases.Lease) -> Iterator[None]:
    """Renews a lease's time stamp: a round trains for hours in one call, and other hosts may go by it."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(leases.BEAT_S):
            lease.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

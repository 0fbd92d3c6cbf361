"""What the retraining simulation requires, computed from what it left: its workspace and its journal.

    for figure in figures(folder, plan):
        figure.name, figure.found, figure.required, figure.holds

The plan says what was planted where; whether it was noticed is read from the
rounds of the workspace, and what was in service when from ML Metadata.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import retraining_truth
from bench.retraining_days import WINDOW, Plan, day_of, path_of, span_of
from bench.retraining_journal import Journal
from bench.retraining_server import MODEL
from pipelines.errors import NotFoundError
from pipelines.lineage import query
from pipelines.lineage.open import record_of
from pipelines.retraining.ledger import Ledger, Record
from pipelines.retraining.policy import FINAL
from pipelines.workspace import Workspace

WITHIN_SPANS = 1
FALSE_PER_30 = 1.0
ROLLBACK_S = 10.0
GROWTH = 1.2
WORSE = 0.03
"""Beyond what two accuracies on 2,000 rows differ by chance."""


@dataclass(frozen=True)
class Required:
    """A figure: what was found, what was wanted, and whether that holds."""

    name: str
    found: str
    required: str
    holds: bool


@dataclass(frozen=True)
class Found:
    """What a simulation left behind."""

    folder: Path
    plan: Plan
    records: Sequence[Record]
    journal: Journal
    workspace: Workspace

    def causes(self, kind: str) -> list[tuple[int, Record]]:
        """Rounds of a kind of cause, with the day of the newest span at that time."""
        named = [(_day(record), record) for record in self.records if record.trigger.startswith(f"{kind}-")]
        return [(day, record) for day, record in named if day is not None]

    def arrived(self) -> list[int]:
        """Days whose files came on their day and can be read."""
        out = (self.plan.late, self.plan.missing, self.plan.corrupt)
        return [day for day in range(self.journal.days_done()) if day not in out]


def figures(folder: Path, plan: Plan, seed: int) -> list[Required]:
    """All that is required."""
    retraining_truth.score_new(folder, plan, seed)
    found = _read(folder, plan)
    return [required for make in _FIGURES for required in make(found)]


def facts(folder: Path, plan: Plan) -> dict[str, Any]:
    """What else there is to know: outcomes of rounds, the plan, seconds of each day."""
    found = _read(folder, plan)
    return {
        "days": found.journal.days_done(),
        "outcomes": dict(Counter(record.outcome for record in found.records)),
        "plan": vars(plan),
        "accuracy": [(note["day"], round(note["accuracy"], 3)) for note in found.journal.of("outcomes")],
        "seconds": [round(note["seconds"]) for note in found.journal.of("done")],
        "disk": [(note["payload"], note["all"]) for note in found.journal.of("disk")],
    }


def _read(folder: Path, plan: Plan) -> Found:
    workspace = Workspace.open(folder / "workspace")
    return Found(folder, plan, Ledger(workspace, MODEL).records(), Journal(folder), workspace)


def _day(record: Record) -> int | None:
    """Day of the span in a cause's name: span-20454v0, drift-20454v0, live-v3-span-20454v0."""
    tail = record.trigger.rsplit("-", 1)[-1]
    number = tail.partition("v")[0]
    return day_of(int(number)) if number.isdigit() else None


def days_lived(found: Found) -> Iterable[Required]:
    done, days = found.journal.days_done(), found.plan.days
    yield Required("days", str(done), str(days), done == days)


def drift(found: Found) -> Iterable[Required]:
    for name, kind, begins in (
        ("covariate drift noticed", "drift", found.plan.covariate),
        ("label drift noticed", "live", found.plan.label),
    ):
        days = [day for day, _ in found.causes(kind) if day >= begins]
        spans = len([day for day in found.arrived() if begins <= day <= min(days)]) if days else None
        told = "no" if spans is None else f"after {spans} span{'' if spans == 1 else 's'}"
        yield Required(name, told, f"after {WITHIN_SPANS}", spans is not None and spans <= WITHIN_SPANS)


def quiet(found: Found) -> Iterable[Required]:
    """A cause is false where the newest span is of the same kind as all that the model has seen."""
    plan = found.plan
    # Longer distances change the rule, too, so that either is a cause for falling accuracy.
    for kind, changes in (("drift", [plan.covariate]), ("live", [plan.covariate, plan.label])):
        false = [day for day, record in found.causes(kind) if _is_quiet(found, record, day, changes)]
        # Spans in whose window nothing changes.
        quiet = [day for day in found.arrived() if not any(at <= day < at + WINDOW for at in changes)]
        rate = 30.0 * len(false) / max(len(quiet), 1)
        where = f" (days {', '.join(map(str, false))})" if false else ""
        yield Required(
            f"false causes ({kind}) in 30 quiet spans",
            f"{rate:.2f}: {len(false)} in {len(quiet)}{where}",
            f"<= {FALSE_PER_30:g}",
            rate <= FALSE_PER_30,
        )


def _is_quiet(found: Found, record: Record, day: int, changes: Sequence[int]) -> bool:
    served = next((item for item in found.records if item.version == record.before), None)
    seen = [day_of(span) for span, _ in served.spans] if served else []
    return all(len({number >= at for number in [day, *seen]}) == 1 for at in changes)


def bad_days(found: Found) -> Iterable[Required]:
    plan = found.plan
    name = path_of(Path(), plan.corrupt).name
    told: dict[str, Callable[[Record], bool]] = {
        "shuffled labels": lambda item: _day(item) == plan.shuffled and item.outcome == "refused",
        "corrupt file": lambda item: item.outcome == "bad_data" and name in item.detail,
        "missing day": lambda item: _says(item, plan.missing, "not come"),
        "late day": lambda item: _says(item, plan.late, "arrived late"),
    }
    named = [what for what, is_told in told.items() if any(map(is_told, found.records))]
    missing = [what for what in told if what not in named]
    yield Required(
        "bad days named in the history",
        ", ".join(named) + (f"; not: {', '.join(missing)}" if missing else ""),
        f"all {len(told)}",
        not missing,
    )
    used = [item for item in found.records if plan.late in (day_of(span) for span, _ in item.spans)]
    yield Required("rounds that used the late day", str(len(used)), ">= 1", bool(used))


def _says(record: Record, day: int, what: str) -> bool:
    return any(f"span {span_of(day)}" in part and what in part for part in record.reason.split("; "))


def promotions(found: Found) -> Iterable[Required]:
    scores = retraining_truth.read(found.folder)
    notes = found.journal.of("promoted")
    pairs = [[scores.get((note["day"], note[side])) for side in ("before", "after")] for note in notes]
    known = [
        (note["day"], before, after)
        for note, (before, after) in zip(notes, pairs, strict=True)
        if before is not None and after is not None
    ]
    worse = [
        f"day {day}: {after:.3f} after {before:.3f}" for day, before, after in known if after < before - WORSE
    ]
    yield Required(
        "worse models promoted",
        f"{len(worse)} of {len(known)} {'; '.join(worse)}".strip(),
        "0",
        bool(known) and len(known) == len(pairs) and not worse,
    )


def kills(found: Found) -> Iterable[Required]:
    kills = found.journal.of("scheduler killed")
    outcomes = {record.trigger: record.outcome for record in found.records}
    ended = [note for note in kills if outcomes.get(note["round"]) in FINAL]
    phases = ", ".join(note["phase"] for note in kills)
    yield Required(
        "schedulers killed, and their rounds ended", f"{len(kills)}, {len(ended)} ({phases})", "2, 2",
        len(kills) == len(ended) == 2,
    )  # fmt: skip
    lasting = [record.trigger for record in found.records if not record.outcome]
    yield Required("rounds that never ended", ", ".join(lasting) or "0", "0", not lasting)
    failed = [record.trigger for record in found.records if record.outcome == "failed"]
    yield Required("rounds that failed", ", ".join(failed) or "0", "0", not failed)
    servers = found.journal.of("server killed")
    heard = [note["day"] for note in found.journal.of("outcomes")]
    answered = [note for note in servers if any(day >= note["day"] for day in heard)]
    yield Required(
        "servers killed, and answering again", f"{len(servers)}, {len(answered)}", "2, 2",
        len(servers) == len(answered) == 2,
    )  # fmt: skip


def rollbacks(found: Found) -> Iterable[Required]:
    with record_of(found.workspace) as source:
        # A push that a killed scheduler did not record is none.
        switches = [item for item in source.switches(MODEL) if not item.reason.startswith("pushed by ")]
    answers = found.journal.answers()
    seconds = [_answered_after(switch.at, switch.version, answers) for switch in switches]
    slowest = max(seconds, default=math.inf)
    yield Required(
        "rollback until it answers, s",
        f"{slowest:.1f}, the slowest of {len(seconds)}",
        f"< {ROLLBACK_S:g}",
        slowest < ROLLBACK_S,
    )
    by_itself = [record for record in found.records if record.outcome == "rolled_back"]
    yield Required("versions rolled back by the watch", str(len(by_itself)), "1", len(by_itself) == 1)


def _answered_after(at: float, version: int, answers: Sequence[Mapping[str, Any]]) -> float:
    """Seconds from a time until a version first answered; infinite where it never did."""
    times = [item["at"] for item in answers if item["at"] >= at and item["version"] == version]
    return min(times, default=math.inf) - at


def requests(found: Found) -> Iterable[Required]:
    path = found.folder / "server" / "counts.json"

    counts = json.loads(path.read_text()) if path.exists() else {"asked": 0, "failed": 0}
    holds = counts["asked"] > 0 and not counts["failed"]
    yield Required("failed requests", f"{counts['failed']} of {counts['asked']:,}", "0", holds)


def disk(found: Found) -> Iterable[Required]:
    sizes = [note["payload"] for note in found.journal.of("disk")]
    third = len(sizes) // 3
    middle, last = max(sizes[third : 2 * third], default=0), max(sizes[2 * third :], default=0)
    holds = 0 < last <= GROWTH * middle
    yield Required(
        "payloads after gc, last third against the middle one",
        f"{last / 1e6:.1f} MB, {middle / 1e6:.1f} MB",
        f"<= {GROWTH:g} times",
        holds,
    )


def traces(found: Found) -> Iterable[Required]:
    sightings = found.journal.of("sighting")
    wrong = 0
    with record_of(found.workspace) as source:
        switches = source.switches(MODEL)
        for note in sightings:
            try:
                history = query.services(source.pushes_around(MODEL, note["at"]), switches)
                serving, _ = query.serving_at(history, note["at"])
            except NotFoundError:
                serving = None
            wrong += (serving.version if serving else 0) != note["version"]
    yield Required("hours with a wrong trace", f"{wrong} of {len(sightings):,}", "0", not wrong)


_FIGURES: Sequence[Callable[[Found], Iterable[Required]]] = (
    days_lived,
    drift,
    quiet,
    bad_days,
    promotions,
    kills,
    rollbacks,
    requests,
    disk,
    traces,
)

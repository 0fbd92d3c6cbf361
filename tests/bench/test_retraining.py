"""The simulation of retraining: its days, and that each of its figures can fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import retraining_figures as figures
from bench.retraining_days import Plan, arrive, path_of, rows, span_of
from bench.retraining_journal import Journal
from pipelines.retraining.ledger import Record
from pipelines.retraining.policy import Outcome
from pipelines.workspace import Workspace

PLAN = Plan(30, covariate=8, label=18, late=5, missing=11, shuffled=13, corrupt=15, killed=(3, 21),
            servers=(4, 22), slow=24, rollback=25)  # fmt: skip


def record(trigger: str, outcome: Outcome = "promoted", *, days: Sequence[int] = (), **more: Any) -> Record:
    spans = [(span_of(day), 0) for day in days]
    return replace(Record(trigger, "new", 1.0, outcome=outcome, spans=spans), **more)


@pytest.fixture
def found(tmp_path: Path):
    def make(*records: Record) -> figures.Found:
        journal = Journal(tmp_path)
        if not journal.of("done"):
            for day in range(PLAN.days):
                journal.note("done", day, seconds=1.0)
        workspace = Workspace.open(tmp_path / "workspace", create=True)
        return figures.Found(tmp_path, PLAN, records, journal, workspace)

    return make


def holds(required) -> dict[str, bool]:
    return {item.name: item.holds for item in required}


def test_days_of_trouble_are_days_of_their_own_and_the_same_for_the_same_seed() -> None:
    for days in (20, 90):
        plan = Plan.of(days, 3)
        assert plan == Plan.of(days, 3)
        single = (plan.covariate, plan.label, plan.late, plan.missing, plan.shuffled, plan.corrupt)
        troubled = [*single, *plan.killed, *plan.servers, plan.slow, plan.rollback]
        assert len(set(troubled)) == len(troubled)
        assert all(3 <= day < days - 3 for day in troubled)
    with pytest.raises(ValueError, match="days=10"):
        Plan.of(10, 3)


def test_a_days_file_is_the_same_whenever_it_is_written(tmp_path: Path) -> None:
    arrive(tmp_path, PLAN, 2, 3)
    first = path_of(tmp_path, 2).read_bytes()
    path_of(tmp_path, 2).unlink()
    arrive(tmp_path, PLAN, 2, 3)
    assert path_of(tmp_path, 2).read_bytes() == first
    assert rows(PLAN, 17, 3, 5)[0]["distance"] != rows(PLAN, 18, 3, 5)[0]["distance"]
    arrive(tmp_path, PLAN, PLAN.corrupt, 3)
    with pytest.raises(UnicodeDecodeError):
        path_of(tmp_path, PLAN.corrupt).read_text()


def test_drift_has_to_be_noticed_with_the_first_span(found) -> None:
    in_time = [record(f"drift-{span_of(8)}v0"), record(f"live-v3-span-{span_of(18)}v0")]
    assert set(holds(figures.drift(found(*in_time))).values()) == {True}
    late = [record(f"drift-{span_of(10)}v0"), record(f"live-v3-span-{span_of(17)}v0")]
    told = holds(figures.drift(found(*late)))
    assert told == {"covariate drift noticed": False, "label drift noticed": False}


def test_a_cause_without_a_change_is_false(found) -> None:
    served = record("span-1v0", version=1, days=(1, 2, 3))
    true = record(f"drift-{span_of(8)}v0", before=1)
    assert set(holds(figures.quiet(found(served, true))).values()) == {True}
    false = record(f"drift-{span_of(4)}v0", before=1)
    rate = next(iter(figures.quiet(found(served, false))))
    assert (rate.holds, rate.found) == (False, "1.25: 1 in 24 (days 4)")


def test_bad_days_have_to_be_named(found) -> None:
    assert not any(holds(figures.bad_days(found())).values())
    corrupt = path_of(Path("data"), 15).name
    told = [
        record(f"span-{span_of(13)}v0", "refused"),
        record(f"span-{span_of(15)}v0", "bad_data", detail=f"It cannot be read [data/{corrupt}]"),
        record(f"span-{span_of(12)}v0", reason=f"new: span 1; span {span_of(11)} has not come"),
        record(f"span-{span_of(7)}v0", days=(5, 6, 7), reason=f"new: span 2; span {span_of(5)} arrived late"),
    ]
    assert all(holds(figures.bad_days(found(*told))).values())
    for left_out in range(4):
        fewer = [item for number, item in enumerate(told) if number != left_out]
        assert not all(holds(figures.bad_days(found(*fewer))).values())


def test_a_worse_model_is_noticed(found, tmp_path: Path) -> None:
    world = found()
    assert not any(holds(figures.promotions(world)).values())
    world.journal.note("promoted", 3, before=1, after=2)
    assert not any(holds(figures.promotions(world)).values())  # not scored
    for accuracy, fine in ((0.89, True), (0.80, False)):
        (tmp_path / "scores.json").write_text(f"[[3, 1, 0.9], [3, 2, {accuracy}]]")
        assert list(holds(figures.promotions(world)).values()) == [fine]


def test_rounds_that_hang_or_fail_are_noticed(found) -> None:
    world = found(record("span-1v0", ""), record("span-2v0", "failed"))
    told = holds(figures.kills(world))
    assert not any(told.values())
    assert set(told) > {"rounds that never ended", "rounds that failed"}


def test_payloads_must_not_grow(found) -> None:
    world = found()
    for day in range(9):
        world.journal.note("disk", day, payload=100, all=1)
    assert all(holds(figures.disk(world)).values())
    for day in range(9, 12):
        world.journal.note("disk", day, payload=150, all=1)
    assert not all(holds(figures.disk(world)).values())

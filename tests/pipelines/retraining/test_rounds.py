"""A round on a chain that is made up: the order of things, and what a kill at any step leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import config, spans
from pipelines.errors import (
    InputError,
    InterruptedRunError,
    NodeFailedError,
    SurroundingsError,
    WorkspaceError,
)
from pipelines.lineage.store import RETRAINING, Store
from pipelines.remote_failures import UnreachableError
from pipelines.retraining.chain import LocalChain
from pipelines.retraining.ledger import Ledger, Record
from pipelines.retraining.rounds import Trained
from pipelines.workspace import Workspace
from tests.pipelines.retraining.chains import FakeChain, Killed
from tests.pipelines.telemetry.documented import events


def decisions(workspace: Workspace) -> list[tuple[str, str, str]]:
    """(action, outcome, state) of every decision in ML Metadata."""
    with Store(workspace.database) as store:
        found = store._store.get_executions_by_type(RETRAINING)
    return [
        (
            item.custom_properties["action"].string_value,
            item.custom_properties["outcome"].string_value,
            str(item.last_known_state),
        )
        for item in found
    ]


def test_a_round_goes_from_training_to_promotion(make, workspace) -> None:
    chain = FakeChain()
    step = make(chain).once()
    assert chain.calls == ["spans", "train", "compare", "push"]
    assert step.record is not None
    assert (step.record.outcome, step.record.version, step.record.spans) == ("promoted", 1, [(1, 0)])
    assert make.notified == [("promotion", "span-1v0")]
    assert decisions(workspace) == [("run", "promoted", "3")]
    # And nothing is due any more.
    assert make(chain).once().decision.action == "wait"


@pytest.mark.parametrize(
    ("changes", "outcome", "event"),
    [
        ({"trained": Trained("/s", in_service=True)}, "unchanged", None),
        ({"trained": Trained("/s", refusals=["evaluation: accuracy is low"])}, "refused", "refusal"),
        ({"worse": ["on the golden set it is worse"]}, "refused", "refusal"),
        ({"error": InputError("A record is bad", place="x.csv")}, "bad_data", "refusal"),
        ({"error": UnreachableError("It cannot be reached", place="s3://b/1.csv")}, "failed", "failure"),
        ({"error": SurroundingsError("It is not there", place="golden.csv")}, "failed", "failure"),
        ({"error": NodeFailedError("The node crashed", place="Trainer")}, "failed", "failure"),
    ],
)
def test_what_is_not_promoted(make, changes, outcome, event) -> None:
    chain = FakeChain(**changes)
    record = make(chain).once().record
    assert record is not None
    assert record.outcome == outcome
    assert "push" not in chain.calls
    assert [name for name, _ in make.notified] == ([event] if event else [])


def test_a_round_that_is_not_ready_in_its_time_has_failed(make) -> None:
    chain = FakeChain(takes=lambda: make.clock.sleep(400.0))
    record = make(chain, budget_minutes=5.0).once().record
    assert record is not None
    assert (record.outcome, chain.versions) == ("failed", [])
    assert record.detail == "The round took longer than its 5 minutes [retraining.budget_minutes]"
    assert chain.budgets == [300.0]


def test_a_candidate_that_no_server_loads_is_refused(make) -> None:
    chain = FakeChain(refusal="infra validation: it does not load")
    record = make(chain).once().record
    assert record is not None
    assert (record.outcome, record.detail) == ("refused", "infra validation: it does not load")
    assert chain.versions == []


def test_a_bad_version_is_rolled_back_while_it_is_watched(make) -> None:
    chain = FakeChain(versions=[0, 7], faults=["", "", "half of the requests failed"])
    watch = {"minutes": 10.0, "every_s": 30.0, "url": "http://127.0.0.1:1"}
    record = make(chain, watch=watch).once().record
    assert record is not None
    assert (record.outcome, record.detail) == ("rolled_back", "half of the requests failed")
    assert chain.in_service() == 7
    assert make.clock.now == 1_000_000.0 + 60.0
    assert [name for name, _ in make.notified] == ["promotion", "rollback"]


def test_a_model_that_was_rolled_back_does_not_come_again_by_another_cause(make, tmp_path) -> None:
    chain = FakeChain(versions=[0, 7], faults=["half of the requests failed"])
    watch = {"minutes": 10.0, "every_s": 30.0, "url": "http://127.0.0.1:1"}
    make(chain, watch=watch).once()
    (tmp_path / "data-2.csv").write_text("a,label\n1,x\n")
    record = make(chain, watch=watch).once().record
    assert record is not None
    assert (record.trigger, record.outcome) == ("span-2v0", "refused")
    assert record.detail == "the same model was rolled back after span-1v0: half of the requests failed"
    assert chain.in_service() == 7


def test_a_good_version_is_watched_for_its_time(make) -> None:
    chain = FakeChain(remark="only 3 requests came while it was watched")
    record = make(chain, watch={"minutes": 2.0, "every_s": 30.0}).once().record
    assert record is not None
    assert record.outcome == "promoted"
    assert record.detail == "version 1 is in service; only 3 requests came while it was watched"
    assert record.ended - record.watched_from == 120.0


@pytest.mark.parametrize("kill_at", range(7))
def test_a_killed_round_goes_on_where_it_was(make, workspace, kill_at) -> None:
    watch = {"minutes": 1.0, "every_s": 30.0}
    chain = FakeChain(kill_at=kill_at)
    with pytest.raises(Killed):
        make(chain, watch=watch).once()
    chain.kill_at = 10**6
    record = make(chain, watch=watch).once().record
    assert record is not None
    assert (record.outcome, record.version) == ("promoted", 1)
    assert chain.versions == [1]
    assert [item.outcome for item in Ledger(workspace, "trips").records()] == ["promoted"]
    assert len(decisions(workspace)) == 1
    # The training run is gone on with, not begun anew.
    if kill_at >= 1:
        assert [call for call in chain.calls if call.startswith("train")][-1] in ("train", "train run-1")


def test_a_decision_that_was_killed_before_it_was_kept_runs_not_for_ever(
    make, workspace, monkeypatch
) -> None:
    def killed(ledger: Ledger, record: Record) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Ledger, "save", killed)
        make(FakeChain()).once()
    Ledger(workspace, "another").open("span-9v0", "of another experiment", 1.0)
    make(FakeChain()).once()
    # 2 is running, 3 complete, 6 canceled.
    assert [state for _, _, state in decisions(workspace)] == ["6", "2", "3"]


def test_bad_data_is_tried_again_once_it_has_changed(make, tmp_path) -> None:
    pattern = str(tmp_path / "data-{SPAN}.csv")
    chain = FakeChain(error=InputError("A record is bad", place="x.csv"))
    chain.data = lambda: spans.state_of(spans.find(pattern))
    steps = [make(chain).once() for _ in range(2)]
    assert [step.decision.action for step in steps] == ["run", "wait"]
    (tmp_path / "data-1.csv").write_text("a,label\n1,mended\n")
    chain.error = None
    record = make(chain).once().record
    assert record is not None
    assert (record.trigger, record.outcome, record.attempts) == ("span-1v0", "promoted", 1)
    assert make(chain).once().decision.action == "wait"


def test_a_bad_span_is_left_out_of_later_rounds(make, tmp_path) -> None:
    chain = FakeChain(error=InputError("A record is bad", place="1"))
    make(chain).once()
    chain.error, chain.present = None, [(2, 0)]
    (tmp_path / "data-2.csv").write_text("a,label\n1,x\n")
    record = make(chain).once().record
    assert record is not None
    assert (record.outcome, record.skipped, chain.skipped) == ("promoted", [1], [1])
    assert record.detail == "version 1 is in service; without span 1, whose data was bad"


def test_the_real_chain_knows_which_spans_are_bad(workspace, tmp_path) -> None:
    for span in (1, 11, 12):
        (tmp_path / f"data-{span}.csv").write_text("a,label\n1,x\n")
    raw = {
        "name": "trips",
        "data": {"path": str(tmp_path / "data-{SPAN}.csv"), "window": 2},
        "model": {"family": "tabular"},
    }
    chain = LocalChain(config.from_mapping(raw), workspace, lambda: None)  # type: ignore[arg-type, return-value]
    assert chain.named(f"{tmp_path}/data-11.csv, record 3") == [11]
    present = chain.spans()
    assert present == [(11, 0), (12, 0)]
    bad = Record("span-12v0", "", 1.0, spans=present, data=chain.state([11]), bad=[11], outcome="bad_data")
    assert chain.bad_spans([bad]) == [11]
    assert chain.without([11]).spans() == [(1, 0), (12, 0)]
    (tmp_path / "data-12.csv").unlink()  # other files say nothing about the bad one
    assert chain.bad_spans([bad]) == [11]
    (tmp_path / "data-11.csv").write_text("a,label\n1,mended\n")
    assert chain.bad_spans([bad]) == []


def test_a_span_that_was_mended_is_left_out_no_more(workspace, tmp_path) -> None:
    path = tmp_path / "data-1.csv"
    path.write_text("a,label\n1,x\n")
    raw = {
        "name": "trips",
        "data": {"path": str(tmp_path / "data-{SPAN}.csv")},
        "model": {"family": "tabular"},
    }
    chain = LocalChain(config.from_mapping(raw), workspace, lambda: None)  # type: ignore[arg-type, return-value]
    ledger = Ledger(workspace, "trips")
    record = ledger.open("span-1v0", "new: span 1", 1.0)
    record.spans, record.bad, record.data = [(1, 0)], [1], chain.state([1])
    ledger.end(record, "bad_data", "a record is bad", 2.0)
    assert chain.bad_spans(ledger.records()) == [1]
    path.write_text("a,label\n1,mended\n")
    again = ledger.open("span-1v0", "new: span 1", 3.0)
    assert chain.bad_spans(ledger.records()) == []
    for outcome in ("failed", "promoted"):
        ledger.end(again, outcome, "", 4.0)  # type: ignore[arg-type]
        assert chain.bad_spans(ledger.records()) == []


def test_what_changed_before_the_push_is_trained_and_compared_anew(make) -> None:
    chain = FakeChain(stale=1)
    record = make(chain).once().record
    assert record is not None
    assert (record.outcome, record.version) == ("promoted", 1)
    assert chain.calls == ["spans", "train", "compare", "push"] * 2


def test_what_cannot_be_rolled_back_is_tried_again_and_not_forgotten(make) -> None:
    chain = FakeChain(versions=[0, 7], faults=["half failed", "half failed"], stuck=1)
    scheduler = make(chain, watch={"minutes": 10.0, "every_s": 30.0, "url": "http://127.0.0.1:1"})
    record = scheduler.once().record
    assert record is not None
    assert (record.outcome, record.detail) == ("failed", "It cannot be rolled back []")
    make.clock.now = scheduler.once().decision.until + 1.0
    record = scheduler.once().record
    assert record is not None
    assert (record.outcome, chain.in_service()) == ("rolled_back", 7)
    assert chain.calls.count("train") == 1


def test_a_fault_of_ours_counts_as_a_failure(make) -> None:
    chain = FakeChain(error=KeyError("boom"))
    scheduler = make(chain)
    with pytest.raises(KeyError):
        scheduler.once()
    assert [name for name, _ in make.notified] == ["failure"]
    decision = scheduler.once().decision
    assert (decision.action, decision.reason[:16]) == ("wait", "1 failures in a ")


def test_after_a_reset_failures_are_counted_from_nothing(make) -> None:
    chain = FakeChain(error=NodeFailedError("The node crashed"))
    scheduler = make(chain, backoff={"first_minutes": 1.0, "stop_after": 2})

    def until_it_stops() -> int:
        attempts = 0
        while "stopped" not in (decision := scheduler.once().decision).reason:
            attempts += decision.action == "run"
            make.clock.now = max(make.clock.now, decision.until)
        return attempts

    assert until_it_stops() == 2
    scheduler.ledger.reset(make.clock.now)
    make.clock.now += 1.0
    assert until_it_stops() == 2
    assert [name for name, _ in make.notified].count("stopped") == 2


def test_an_interrupted_round_goes_on(make) -> None:
    chain = FakeChain(error=InterruptedRunError("The run was interrupted"))
    with pytest.raises(InterruptedRunError):
        make(chain).once()
    chain.error = None
    record = make(chain).once().record
    assert record is not None
    assert (record.outcome, record.attempts) == ("promoted", 1)
    assert "train run-1" in chain.calls


def test_failures_are_tried_again_later_and_then_no_more(make, workspace) -> None:
    chain = FakeChain(error=NodeFailedError("The node crashed"))
    settings = {"backoff": {"first_minutes": 10.0, "stop_after": 3}}
    scheduler = make(chain, **settings)
    attempts = 0
    for _ in range(10):
        decision = scheduler.once().decision
        if decision.action == "run":
            attempts += 1
        else:
            make.clock.now = max(make.clock.now, decision.until)
    assert attempts == 3
    assert "stopped after 3 failures" in scheduler.once().decision.reason
    assert [name for name, _ in make.notified] == ["failure"] * 3 + ["stopped"]
    chain.error = None
    scheduler.ledger.reset(make.clock.now)
    record = scheduler.once().record
    assert record is not None
    assert (record.outcome, record.attempts) == ("promoted", 4)
    assert len(decisions(workspace)) == 4


def test_two_schedulers_do_one_round(make, workspace) -> None:
    other = make(FakeChain())
    with (
        Ledger(workspace, "trips").held(),
        pytest.raises(WorkspaceError, match="Another scheduler retrains 'trips'"),
    ):
        other.once()
    assert other.chain.calls == []
    assert other.once().decision.action == "run"
    assert make(FakeChain()).once().decision.action == "wait"


def test_a_late_span_outside_the_window_is_noted_once(make, workspace, tmp_path) -> None:
    chain = FakeChain(present=[(5, 0)])
    (tmp_path / "data-5.csv").write_text("a,label\n1,x\n")
    scheduler = make(chain)
    # What was there before retraining was set up is old, and not late.
    steps = [scheduler.once() for _ in range(2)]
    for span in (3, 4):
        (tmp_path / f"data-{span}.csv").write_text("a,label\n1,x\n")
    steps += [scheduler.once() for _ in range(2)]
    assert [step.decision.action for step in steps] == ["run", "wait", "skip", "wait"]
    assert [(action, outcome) for action, outcome, _ in decisions(workspace)] == [
        ("run", "promoted"),
        ("skip", "skipped"),
    ]


def test_a_damaged_record_is_named(make, workspace) -> None:
    make(FakeChain()).once()
    path = Path(workspace.root, "retraining", "trips", "rounds", "span-1v0.json")
    path.write_text("{")
    with pytest.raises(WorkspaceError, match="record cannot be read") as raised:
        make(FakeChain()).once()
    assert str(path) in raised.value.place


def test_what_happens_is_told_as_documented(make) -> None:
    chain = FakeChain(worse=["lost 3 points"])
    scheduler = make(chain)
    scheduler.once()
    scheduler.say_waiting(scheduler.once().decision)
    told = {notice.event: notice for notice in make.told}
    assert list(told) == [
        "retraining.looked",
        "retraining.round_begun",
        "retraining.round_ended",
        "retraining.waiting",
    ]
    logged = [notice for notice in make.told if notice.level != "debug"]
    assert {notice.event: set(notice.facts) for notice in logged}.items() <= events().items()
    ended = told["retraining.round_ended"]
    assert (ended.level, ended.facts["outcome"], ended.facts["detail"]) == (
        "warning",
        "refused",
        "lost 3 points",
    )
    looked = told["retraining.looked"].facts
    assert (looked["failures"], looked["stopped"], looked["in_service"]) == (0, False, 0)

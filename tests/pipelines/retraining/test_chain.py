"""What a round does on the real chain, where nothing has to be trained for it."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines import config, errors, leases, plans, run
from pipelines.retraining import chain
from pipelines.retraining.ledger import Ledger, Record
from pipelines.retraining.rounds import RefusedError
from pipelines.retraining.settings import Retraining
from pipelines.runners.events import FAILED, Event
from pipelines.workspace import Workspace

SETTINGS = Retraining(budget_minutes=1.0)


def test_a_budget_that_ends_before_nodes_run_is_that_rounds_failure() -> None:
    with pytest.raises(errors.NodeFailedError, match="took longer"), chain._within(0.05, SETTINGS):
        threading.Event().wait(10.0)  # as while TFX is imported


def test_somebody_elses_signal_is_no_budget() -> None:
    with pytest.raises(KeyboardInterrupt), chain._within(60.0, SETTINGS):
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(10.0)


@pytest.mark.parametrize(
    ("kinds", "raised"),
    [
        (["DataError", "UserError"], errors.InputError),
        (["AnomalyError", "UserError"], errors.InputError),
        (["PushError", "UserError"], errors.SurroundingsError),
        (["RejectedError", "PushError", "UserError"], errors.RejectedError),
        (["ResourceExhaustedError", "OpError"], errors.SurroundingsError),
    ],
)
def test_what_is_no_fault_of_the_data_is_not_laid_to_it(tmp_path, kinds, raised) -> None:
    told = {"headline": "It could not", "place": "there", "remedy": "Mend it."}
    error = run._failure([Event("Pusher", FAILED, 1.0, error=told, user_error=True, kinds=kinds)], tmp_path)
    assert (type(error), error.exit_code, error.place) == (raised, 2, "there")


def test_a_push_of_something_else_than_was_compared_is_stale(tmp_path, monkeypatch) -> None:
    workspace = Workspace.open(tmp_path / "w", create=True)
    raw = {"name": "trips", "data": {"path": "x-{SPAN}.csv"}, "model": {"family": "tabular"}}
    progress: Any = SimpleNamespace
    made = chain.LocalChain(config.from_mapping(raw), workspace, progress)
    accepted: list[Any] = []

    def run_it(experiment: Any, workspace: Any, options: Any, progress: Any, accept: Any) -> None:
        accept("now")
        accepted.append("now")

    monkeypatch.setattr(chain, "run", run_it)
    monkeypatch.setattr(plans, "settings_of", lambda template: str(template))
    with pytest.raises(chain.StaleError):
        made._run_like("run-1")  # whose compiled pipeline is gone
    folder = workspace.run_folder("run-1")
    folder.mkdir(parents=True)
    (folder / run.TEMPLATE).write_bytes(b"")
    with pytest.raises(chain.StaleError):
        made._run_like("run-1")
    monkeypatch.setattr(plans, "settings_of", lambda template: "the same")
    made._run_like("run-1")
    assert accepted == ["now"]


@pytest.mark.parametrize("after_a_kill", [False, True])
def test_a_model_that_answers_wrongly_on_the_server_is_refused(tmp_path, monkeypatch, after_a_kill) -> None:
    workspace = Workspace.open(tmp_path / "w", create=True)
    raw = {"name": "trips", "data": {"path": "x-{SPAN}.csv"}, "model": {"family": "tabular"}}
    progress: Any = SimpleNamespace
    made = chain.LocalChain(config.from_mapping(raw), workspace, progress)
    for version in ("1", "2") if after_a_kill else ("1",):
        (workspace.serving_root("trips") / version).mkdir(parents=True)
    taken_back: list[str] = []

    def roll_back(record: Record, reason: str) -> None:
        taken_back.append(reason)
        (workspace.serving_root("trips") / "2").rmdir()

    def run_like(run_id: str) -> None:
        raise errors.RejectedError("Version 2 answers wrongly")

    monkeypatch.setattr(made, "roll_back", roll_back)
    monkeypatch.setattr(made, "_run_like", run_like)
    with pytest.raises(RefusedError, match="answers wrongly"):
        made.push(Record("span-2v0", "", 1.0, before=1, run_id="run-2"))
    # Of a push that was killed, the version was left in service.
    assert taken_back == (["Version 2 answers wrongly"] if after_a_kill else [])


def test_a_golden_set_that_cannot_be_used_is_no_finding_about_the_data(tmp_path, monkeypatch) -> None:
    workspace = Workspace.open(tmp_path / "w", create=True)
    raw = {"name": "trips", "data": {"path": "x-{SPAN}.csv"}, "model": {"family": "tabular"}}
    progress: Any = SimpleNamespace
    told = config.from_mapping({**raw, "retraining": {"golden": "golden.csv"}})
    made = chain.LocalChain(told, workspace, progress)
    (workspace.serving_root("trips") / "1").mkdir(parents=True)
    output: Any = SimpleNamespace(uri="examples")
    monkeypatch.setattr(made, "_output", lambda *arguments: output)

    def fail(*arguments: Any) -> None:
        raise errors.InputError("A record is bad", place="/data/golden.csv, record 3")

    monkeypatch.setattr(chain, "run", fail)
    with pytest.raises(errors.SurroundingsError) as raised:
        made.compare(Record("span-2v0", "", 1.0, before=1, run_id="run-2"), None)
    assert raised.value.headline == "The golden set cannot be used: A record is bad"
    assert raised.value.place == "retraining.golden: golden.csv, /data/golden.csv, record 3"


def test_a_scheduler_gives_signs_of_life_while_it_trains(tmp_path, monkeypatch) -> None:
    beaten = threading.Event()
    monkeypatch.setattr(leases, "BEAT_S", 0.01)
    monkeypatch.setattr(leases.Lease, "beat", lambda lease: beaten.set())
    with Ledger(Workspace.open(tmp_path / "w", create=True), "trips").held():
        assert beaten.wait(10.0)

"""What lies under a data path, with spans and without."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pipelines import config
from pipelines.errors import InputError
from pipelines.retraining import observe
from pipelines.retraining.chain import LocalChain
from pipelines.retraining.ledger import Ledger
from pipelines.retraining.present import Present
from tests.pipelines.retraining.chains import FakeChain


def experiment(path: Path, **retraining: Any) -> config.Experiment:
    raw = {"name": "trips", "data": {"path": str(path)}, "model": {"family": "tabular"}}
    return config.from_mapping({**raw, "retraining": retraining})


@pytest.mark.parametrize("named", ["trips.csv", "*.csv", ""])
def test_the_state_of_data_without_spans_changes_with_its_files(tmp_path, named) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    file = folder / "trips.csv"
    file.write_text("a,label\n1,x\n")
    told = experiment(folder / named)
    before = Present(told).state()
    assert Present(told).spans == []
    assert Present(told).state() == before
    file.write_text("a,label\n2,x\n")
    os.utime(file, ns=(1, 1))
    assert Present(told).state() != before


def test_data_of_headraces_own_has_no_files_to_look_at() -> None:
    raw = {"name": "digits", "data": {"source": "digits"}, "model": {"family": "image"}}
    assert Present(config.from_mapping(raw)).files == []


def test_the_state_of_files_is_asked_for_where_it_tells_causes_apart(tmp_path, workspace) -> None:
    path = tmp_path / "trips.csv"
    path.write_text("a,label\n1,x\n")

    def state_of(told: config.Experiment) -> str:
        ledger = Ledger(workspace, told.name)
        seen = observe.observe(told, workspace, ledger, observe.ignore_drift, observe.ignore_predictions, 1.0)
        return seen.data

    assert state_of(experiment(path, max_age_days=3.0)) == Present(experiment(path)).state()
    assert state_of(experiment(path, every="0 3 * * *")) == ""
    assert state_of(experiment(tmp_path / "{SPAN}.csv", max_age_days=3.0)) == ""


def test_bad_data_without_spans_is_tried_again_once_it_has_changed(make, tmp_path, workspace) -> None:
    path = tmp_path / "trips.csv"
    path.write_text("a,label\n1,x\n")
    progress: Any = None
    real = LocalChain(experiment(path), workspace, progress)
    chain = FakeChain(present=[], error=InputError("A record is bad", place=str(path)))
    chain.data = lambda: real.state([])
    scheduler = make(chain, "trips.csv", every="0 3 * * *")
    scheduler.once()
    make.clock.sleep(86_400.0)
    steps = [scheduler.once() for _ in range(2)]
    assert [step.decision.action for step in steps] == ["run", "wait"]
    path.write_text("a,label\n1,mended\n")
    chain.error = None
    record = scheduler.once().record
    assert record is not None
    assert (record.trigger, record.outcome) == (steps[0].record.trigger, "promoted")

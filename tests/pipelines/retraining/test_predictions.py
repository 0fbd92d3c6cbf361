"""Logged predictions against those of the test split, and what is read of the log."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.challenge.predicted import Distribution
from pipelines import config
from pipelines.lineage.source import Push
from pipelines.retraining.predictions import PredictionDrift, folder_of, recent
from pipelines.workspace import Workspace

PUSH = Push(1, "trips", 3, "/serving/trips/3", 100.0)
UNKNOWN: Any = SimpleNamespace(output=lambda node, key: None)


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    made = Workspace.open(tmp_path / "w", create=True)
    folder = made.root / "retraining" / "trips"
    folder.mkdir(parents=True)
    Distribution.of(["yes", "no"] * 500, [0.9] * 1_000).write(folder / "test-3.json")
    return made


def watch(workspace: Workspace, **settings: object) -> PredictionDrift:
    experiment = config.from_mapping(
        {
            "name": "trips",
            "data": {"path": "x.csv"},
            "model": {"family": "tabular"},
            "retraining": {"predictions": {"requests": 200, **settings}},
        }
    )
    return PredictionDrift(experiment, workspace)


def log(path: Path, classes: list[str], version: int = 3) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"at": 1.0, "version": version, "class": name, "score": 0.9}) for name in classes]
    with open(path, "a") as file:
        file.write("\n".join(lines) + "\n")


def test_predictions_as_on_the_test_split_are_no_cause(workspace) -> None:
    log(folder_of(workspace) / "trips.jsonl", ["yes", "no"] * 100)
    assert watch(workspace)(PUSH, UNKNOWN) == []


def test_those_that_have_moved_are_named(workspace, tmp_path) -> None:
    log(tmp_path / "elsewhere" / "trips.jsonl", ["yes"] * 200)
    (sentence,) = watch(workspace, log=str(tmp_path / "elsewhere"))(PUSH, UNKNOWN) or ()
    assert sentence.startswith("predictions: 100.0% of the last 200 are 'yes', and 50.0% of the test split's")


def test_too_few_say_nothing_and_neither_does_another_version(workspace) -> None:
    path = folder_of(workspace) / "trips.jsonl"
    assert watch(workspace)(PUSH, UNKNOWN) is None
    log(path, ["yes"] * 199)
    log(path, ["yes"] * 500, version=2)
    assert watch(workspace)(PUSH, UNKNOWN) is None


def test_a_version_whose_test_split_is_unknown_says_nothing(workspace) -> None:
    (workspace.root / "retraining" / "trips" / "test-3.json").write_text("damaged")
    log(folder_of(workspace) / "trips.jsonl", ["yes"] * 200)
    assert watch(workspace)(PUSH, UNKNOWN) is None


def test_the_newest_lines_of_both_files_are_read_and_damaged_ones_left_out(tmp_path) -> None:
    log(tmp_path / "trips.1.jsonl", ["a", "b"])
    log(tmp_path / "trips.jsonl", ["c", "d"])
    with open(tmp_path / "trips.jsonl", "a") as file:
        file.write('{"version": 3, "cl{"version": 3}\n[3]\n{"version": 3, "cl')
    assert [line["class"] for line in recent(tmp_path, "trips", 3, 3)] == ["b", "c", "d"]

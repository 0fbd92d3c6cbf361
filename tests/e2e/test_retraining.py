"""Retraining from the command line: good days go into service, bad ones are named, nothing is done twice."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.e2e

EXPERIMENT = """
name: tips
data: {path: "DATA/{YYYY}-{MM}-{DD}.csv", format: csv}
model: {family: tabular, hidden: [8]}
train: {epochs: 3, batch_size: 64, tensorboard: false}
rewrite: {candidates: [frozen], max_drop: 5.0}
evaluation: {min_accuracy: 0.4, min_class_accuracy: 0.0, max_drop: 1.0}
retraining: {on_new_span: true, max_drop: 10.0, slices: [district=north], golden: DATA/golden.csv}
"""


def write(path: Path, seed: int, *, shuffled: bool = False) -> None:
    rng = np.random.default_rng(seed)
    districts = rng.choice(["north", "south"], 600)
    distances = rng.gamma(2.0, 2.0, 600)
    labels = np.where((distances > 3.5) ^ (districts == "north"), "yes", "no")
    if shuffled:
        labels = rng.permutation(labels)
    rows = [f"{d:.3f},{place},{label}" for d, place, label in zip(distances, districts, labels, strict=True)]
    path.write_text("distance,district,label\n" + "\n".join(rows) + "\n")


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("retraining")
    (folder / "data").mkdir()
    (folder / "tips.yaml").write_text(EXPERIMENT.replace("DATA", str(folder / "data")))
    write(folder / "data" / "golden.csv", 99)
    return folder


@pytest.fixture(scope="module")
def retrain(headrace, place):
    def call(*arguments: str):
        name, *others = arguments
        given = [name] if name in ("history", "explain", "status") else []
        others = others if given else list(arguments)
        return headrace("retrain", *given, str(place / "tips.yaml"), *others, "--workspace", str(place / "w"))

    return call


def outcome_of(retrain, trigger: str) -> dict[str, object]:
    return json.loads(retrain("explain", trigger, "--output", "json").out)[0]


def span(day: int) -> str:
    return f"span-{(date(2026, 1, day) - date(1970, 1, 1)).days}v0"


def test_the_first_day_goes_into_service_once(retrain, place) -> None:
    write(place / "data" / "2026-01-01.csv", 1)
    done = retrain("--once")
    assert done.code == 0, done.err
    assert f"round {span(1)}: promoted: version 1 is in service" in done.out
    again = retrain("--once")
    assert "nothing is due: 1 spans, all used" in again.out
    assert json.loads(retrain("status", "--output", "json").out)[0]["next"] == "wait"


def test_predictions_that_are_not_spread_as_on_the_test_split_are_a_cause(retrain, place) -> None:
    line = json.dumps({"at": 1.0, "version": 1, "class": "yes", "score": 0.99})
    (place / "log").mkdir()
    (place / "log" / "tips.jsonl").write_text(f"{line}\n" * 200)
    told = f"retraining.predictions={{log: {place / 'log'}, requests: 200}}"
    done = retrain("--once", "--set", told)
    assert done.code == 0, done.err
    found = outcome_of(retrain, f"predictions-v1-{span(1)}")
    assert str(found["reason"]).startswith("predictions: ")
    assert "of the last 200" in str(found["reason"])
    assert found["outcome"] == "unchanged"


def test_a_corrupt_day_is_named_and_nothing_else_happens(retrain, place) -> None:
    path = place / "data" / "2026-01-02.csv"
    write(path, 2)
    path.write_bytes(path.read_bytes()[:3000] + b"\xff\xfe\n")
    done = retrain("--once")
    assert done.code == 0, done.err
    found = outcome_of(retrain, span(2))
    assert found["outcome"] == "bad_data"
    assert str(path) in str(found["detail"])


def test_a_day_with_shuffled_labels_does_not_get_in(retrain, place) -> None:
    write(place / "data" / "2026-01-03.csv", 3, shuffled=True)
    done = retrain("--once")
    assert done.code == 0, done.err
    assert outcome_of(retrain, span(3))["outcome"] == "refused"
    assert [path.name for path in (place / "w/serving/tips").glob("[0-9]*")] == ["1"]


def test_history_names_every_day(retrain) -> None:
    rows = json.loads(retrain("history", "--output", "json").out)
    assert [row["outcome"] for row in rows] == ["refused", "bad_data", "unchanged", "promoted"]
    assert [row["version"] for row in rows] == [None, None, None, 1]

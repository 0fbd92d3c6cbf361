"""A search before training, a warm start, and a profile: digits, with few epochs, from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pipelines.lineage.store import Store

pytestmark = pytest.mark.e2e

SPACE = "{train.learning_rate: {choices: [0.0000001, 0.004]}, model.filters: {choices: [[8, 16], [8]]}}"
QUICK = [
    "train.epochs=6",
    "train.early_stopping_patience=6",
    "train.xla=off",
    "train.warm_start=true",
    "rewrite.candidates=[frozen]",
    "rewrite.max_drop=100",
    "evaluation.min_accuracy=0",
    "evaluation.max_drop=1",
]


def run(headrace, workspace: Path, *settings: str):
    changes = [text for setting in (*QUICK, *settings) for text in ("--set", setting)]
    return headrace("run", "digits", "--workspace", str(workspace), *changes)


def nodes_of(workspace: Path) -> dict:
    with Store(workspace / "metadata.db") as store:
        return {node.node: node for node in store.nodes(store.find_run("latest").run_id)}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tuning") / "workspace"


@pytest.fixture(scope="module")
def tuned(headrace, workspace):
    tune = f"tune={{trials: 4, epochs: 2, oracle: random, space: {SPACE}}}"
    return run(headrace, workspace, tune, "train.profile=20-30"), nodes_of(workspace)


def test_the_best_values_reach_the_trainer_and_the_record(tuned) -> None:
    done, nodes = tuned
    assert done.code == 0, done.err + done.out
    (told,) = re.findall(r"^Tuned .*", done.out, re.MULTILINE)
    assert "train.learning_rate=0.004" in told and "model.filters=[8" in told
    found = json.loads(str(nodes["Tuner"].properties["tuned"]))
    assert found["train.learning_rate"] == 0.004
    assert nodes["Tuner"].properties["trials"] >= 2
    trainer = nodes["Trainer"]
    assert json.loads(str(trainer.properties["tuned"])) == found
    assert [item.id for item in trainer.inputs["hyperparameters"]] == [
        item.id for item in nodes["Tuner"].outputs["best_hyperparameters"]
    ]
    report = json.loads(Path(trainer.outputs["model_run"][0].uri, "history.json").read_text())
    filters = json.loads(found["model.filters"].removeprefix("json:"))
    parameters = {(8,): 1, (8, 16): 2}[tuple(filters)]
    assert report["parameters"] > 300 * parameters


def test_the_trainers_machine_is_on_record(tuned) -> None:
    _, nodes = tuned
    facts = nodes["Trainer"].properties
    assert facts["device"] == "CPU"
    # Chosen by measurement: bfloat16 pays on some processors.
    assert facts["precision"] in ("float32", "mixed_bfloat16") and facts["precision_reason"]
    assert facts["xla"] == "off"
    assert facts["examples_per_s"] > 0 and facts["training_peak_memory_mb"] > 100
    assert 0 <= facts["input_wait_share"] <= 1
    assert "intra_op_threads" in facts and facts["onednn"] == "auto"


def test_the_profile_says_where_a_step_goes(headrace, workspace, tuned) -> None:
    done = headrace("profile", "latest", "--workspace", str(workspace))
    assert done.code == 0, done.err
    assert "10 steps of" in done.out
    for word in ("input", "compute", "host", "Conv2D", "Next "):
        assert word in done.out


def test_the_same_run_again_is_cached_in_spite_of_the_warm_start(headrace, workspace, tuned) -> None:
    tune = f"tune={{trials: 4, epochs: 2, oracle: random, space: {SPACE}}}"
    done = run(headrace, workspace, tune, "train.profile=20-30")
    assert done.code == 0, done.err
    assert "0 executed" in done.out


def test_the_next_training_begins_with_the_blessed_model(headrace, workspace, tuned) -> None:
    """With the widths that the search found; with others the error names what does not fit."""
    _, nodes = tuned
    widths = json.loads(str(nodes["Tuner"].properties["tuned"]))["model.filters"].removeprefix("json:")
    done = run(
        headrace, workspace, f"model.filters={widths}", "train.epochs=1", "train.learning_rate=0.000001"
    )
    assert done.code == 0, done.err
    later = nodes_of(workspace)["Trainer"]
    assert later.properties["warm_start_model_id"] == nodes["Trainer"].outputs["model"][0].id
    before, after = (
        json.loads(Path(node.outputs["model_run"][0].uri, "history.json").read_text())
        for node in (nodes["Trainer"], later)
    )
    kept = before["history"]["val_accuracy"][before["best_epoch"] - 1]
    assert abs(after["history"]["val_accuracy"][0] - kept) < 0.15
    other = run(headrace, workspace, "model.filters=[24]", "train.epochs=1")
    assert other.code == 2
    assert "does not fit this one" in other.err and "train.warm_start: false" in other.err

"""The compiled pipeline gives what the local runner gives: model, metrics, lineage.

Containers are forked from one process that has imported TFX; it is a chain nevertheless, twice.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lineage_graphs import differences, local_graph, spec_graph

pytestmark = pytest.mark.e2e

SETTINGS = (
    "train.epochs=3",
    "train.deterministic=true",
    "evaluation.min_accuracy=0.2",
    "rewrite.max_drop=20",
)


class Runs:
    """The same experiment twice: by the local runner, and as compiled for Kubeflow."""

    def __init__(self, headrace: Any, folder: Path) -> None:
        self.headrace = headrace
        self.local, self.spec = folder / "local", folder / "spec"
        self.go(self.local)
        # What is decided by timing is taken from the record.
        chosen = self.artifact("Rewriter", "report", "candidates.json")["chosen"]
        candidates = [] if chosen == "identity" else [chosen]
        self.choices = (f"rewrite.candidates={json.dumps(candidates)}", "rewrite.objective=size")
        self.go(self.spec, "--runner", "spec", *(f"--set={choice}" for choice in self.choices))

    def go(self, workspace: Path, *more: str) -> None:
        settings = [f"--set={setting}" for setting in SETTINGS]
        done = self.headrace("run", "digits", "--workspace", str(workspace), *settings, *more)
        assert done.code == 0, done.out + done.err

    def artifact(self, node: str, key: str, name: str) -> Any:
        (path,) = (self.local / "artifacts" / "digits" / node / key).glob(f"*/{name}")
        return json.loads(path.read_text())

    @property
    def root(self) -> Path:
        return self.spec / "spec"

    def run_id(self, number: int = -1) -> str:
        return sorted(path.name for path in (self.root / "runs").iterdir())[number]

    def outcome(self, number: int = -1) -> Any:
        return json.loads((self.root / "runs" / self.run_id(number) / "outcome.json").read_text())

    def stored(self, node: str, key: str, number: int = 0) -> Path:
        pattern = f"minio/mlpipeline/v2/artifacts/digits/{self.run_id(number)}/{node}/*/{key}"
        (found,) = (self.root / "store").glob(pattern)
        return found


@pytest.fixture(scope="module")
def runs(headrace, tmp_path_factory) -> Runs:
    return Runs(headrace, tmp_path_factory.mktemp("both"))


def weights(folder: Path) -> bytes:
    (path,) = folder.rglob("variables.data-00000-of-00001")
    return path.read_bytes()


def test_the_same_weights_byte_by_byte(runs) -> None:
    (local,) = (runs.local / "artifacts/digits/Trainer/model").iterdir()
    assert weights(local / "Format-Serving") == weights(runs.stored("Trainer", "model") / "Format-Serving")


def test_the_same_answers_and_the_same_choice(runs) -> None:
    import numpy as np

    (local,) = (runs.local / "artifacts/digits/Rewriter/report").iterdir()
    spec = runs.stored("Rewriter", "report")
    choices = [json.loads((path / "candidates.json").read_text())["chosen"] for path in (local, spec)]
    assert choices[0] == choices[1]
    for first, second in zip(sorted(local.glob("judged*")), sorted(spec.glob("judged*")), strict=True):
        np.testing.assert_array_equal(np.load(first), np.load(second))


def test_the_same_metrics(runs) -> None:
    local = runs.artifact("Evaluator", "evaluation", "summary.json")
    assert json.loads((runs.stored("Evaluator", "evaluation") / "summary.json").read_text()) == local


def test_the_same_lineage_after_renaming(runs, headrace) -> None:
    listed = headrace("runs", "--workspace", str(runs.local))
    run_id = next(word for word in listed.out.split() if word.startswith("digits-"))
    local = local_graph(runs.local, run_id)
    spec = spec_graph(runs.root, runs.run_id(0), runs.spec)
    assert differences(local, spec) == []


def test_a_difference_would_be_noticed(runs) -> None:
    spec = spec_graph(runs.root, runs.run_id(0), runs.spec)
    other = spec_graph(runs.root, runs.run_id(0), runs.spec)
    other["Trainer"].properties["run_fn"] = "another.run_fn"
    other["Evaluator"].inputs["model"] = ["Trainer.model"]
    assert len(differences(spec, other)) == 2


def test_both_push_a_version_that_says_where_it_comes_from(runs) -> None:
    manifests = [
        json.loads((root / "serving/digits/1/assets.extra/headrace.json").read_text())
        for root in (runs.local, runs.spec)
    ]
    assert manifests[0]["metrics"] == manifests[1]["metrics"]
    assert manifests[1]["run"] == runs.run_id(0)


def test_a_second_run_is_cached_and_pushes_nothing(runs) -> None:
    runs.go(runs.spec, "--runner", "spec", *(f"--set={choice}" for choice in runs.choices))
    tasks = runs.outcome()["tasks"]
    executed = {name for name, task in tasks.items() if task["attempts"]}
    assert executed == {"ResolveData", "EarlierStatistics", "Baseline"}
    versions = [path.name for path in (runs.spec / "serving/digits").iterdir() if path.name.isdigit()]
    assert versions == ["1"]

"""What a version is recalled as, what stands in the way, and what counts as the same."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines import config, fingerprint, inputs, reproduce
from pipelines.errors import InputError, NotFoundError
from pipelines.lineage.records import ArtifactRecord, RunRecord
from pipelines.lineage.source import Execution, Push
from pipelines.lineage.view import NodeView, RunView

PUSH = Push(1, "m", 3, "/s/m/3", 0.0)
WEIGHTS = "a" * 64


def seen(
    tmp_path: Path, *, deterministic: bool = True, accuracy: float = 0.9, weights: str = WEIGHTS
) -> RunView:
    """A run with what its nodes recorded."""
    file = tmp_path / "data.csv"
    file.write_text("x,y\n1,2\n")
    experiment = config.load(
        "digits",
        ["data.source=null", f"data.path={file}", f"train.deterministic={json.dumps(deterministic)}"],
    )
    details = {
        "config": experiment.model_dump_json(),
        "packages": fingerprint.environment(),
        "surroundings": {"device": "CPU, 2 cores"},
        "summary": {"accuracy": accuracy, "examples": {"train": 6}},
        "folder": str(tmp_path),
    }
    facts = {
        "ExampleGen": {"data_digest": "d", "request": json.dumps({"sources": [{"path": "p", "span": 4}]})},
        "Trainer": {"weights_sha256": weights, "precision": "mixed_bfloat16", "xla": "on"},
        "Rewriter": {"chosen": "frozen"},
        "Evaluator": {"accuracy": accuracy},
    }
    nodes = {}
    for number, (name, properties) in enumerate(facts.items()):
        execution = Execution(number, name, "m-1", "complete", 0.0, properties)
        outputs = {"evaluation": [_evaluation(tmp_path, accuracy)]} if name == "Evaluator" else {}
        nodes[name] = NodeView(execution, execution, {}, outputs)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    files = [ArtifactRecord(9, "InputFile", str(file), {"sha256": digest, "files": 1})]
    return RunView(RunRecord("m-1", "m", "complete", 0.0, 1.0, details), nodes, files)


def _evaluation(tmp_path: Path, accuracy: float) -> ArtifactRecord:
    folder = tmp_path / f"evaluation-{accuracy}"
    folder.mkdir(exist_ok=True)
    metrics = {"candidate": {"overall": {"accuracy": accuracy, "example_count": 400.0}}}
    (folder / "summary.json").write_text(json.dumps({"metrics": metrics}))
    return ArtifactRecord(8, "ModelEvaluation", str(folder), {})


def recalled(run: RunView) -> reproduce.Recalled:
    return reproduce.Recalled(PUSH, run, reproduce._experiment(run), Path(run.run.details["folder"]))


def test_choices_by_timing_are_taken_from_the_record(tmp_path) -> None:
    experiment = recalled(seen(tmp_path)).experiment
    assert (experiment.train.precision, experiment.train.xla) == ("mixed_bfloat16", "on")
    assert (experiment.rewrite.fixed, experiment.rewrite.candidates) == ("frozen", ["frozen"])
    assert experiment.data.span == 4  # there may be newer ones by now
    assert experiment.push.server is None and experiment.metadata is None


def test_a_teacher_is_found_by_its_place_and_must_be_the_same(tmp_path, monkeypatch) -> None:
    run = seen(tmp_path)
    teacher = tmp_path / "teacher.keras"
    teacher.write_text("weights")
    told = {"teacher": str(teacher), "teacher_digest": inputs.digest_of_tree(teacher)}
    raw = json.loads(run.run.details["config"])
    raw["train"]["distill"] = {"teacher": "big@2"}
    details = {**run.run.details, "config": json.dumps(raw)}
    trainer = run.nodes["Trainer"]
    recorded = {**trainer.maker.properties, "custom_config": json.dumps({"train": {"distill": told}})}
    nodes = {**run.nodes, "Trainer": replace(trainer, maker=replace(trainer.maker, properties=recorded))}
    asked = recalled(replace(run, run=replace(run.run, details=details), nodes=nodes))
    assert asked.experiment.train.distill.teacher == str(teacher)
    monkeypatch.setattr(reproduce, "_fingerprints", lambda *_: {})
    assert reproduce.obstacles(asked, None) == []
    teacher.write_text("others")
    assert [item.what for item in reproduce.obstacles(asked, None)] == [str(teacher)]


def test_what_was_set_stays_set(tmp_path) -> None:
    run = seen(tmp_path)
    raw = json.loads(run.run.details["config"])
    raw["train"]["precision"] = "float32"
    details = {**run.run.details, "config": json.dumps(raw)}
    experiment = recalled(replace(run, run=replace(run.run, details=details))).experiment
    assert experiment.train.precision == "float32"


def test_packages_and_files_that_differ_are_named(tmp_path, monkeypatch) -> None:
    asked = recalled(seen(tmp_path))
    now = {**fingerprint.environment(), "keras": "0.1"}
    monkeypatch.setattr(fingerprint, "environment", lambda: now)
    (tmp_path / "data.csv").write_text("other")
    found = reproduce.obstacles(asked, None)
    assert [(item.kind, item.what) for item in found] == [
        ("lock", "keras"),
        ("data", str(tmp_path / "data.csv")),
    ]


def test_code_that_differs_is_named_by_node(tmp_path, monkeypatch) -> None:
    run = seen(tmp_path)
    trainer = run.nodes["Trainer"]
    marked = replace(trainer.maker, properties={**trainer.maker.properties, "code_fingerprint": "old"})
    nodes = {**run.nodes, "Trainer": replace(trainer, maker=marked)}
    monkeypatch.setattr(reproduce, "_fingerprints", lambda *_: {"Trainer": "new", "Pusher": "any"})
    found = reproduce.obstacles(recalled(replace(run, nodes=nodes)), None)
    assert found == [reproduce.Obstacle("code", "Trainer", "old", "new")]


def test_a_file_that_is_gone_ends_it(tmp_path, monkeypatch) -> None:
    asked = recalled(seen(tmp_path))
    monkeypatch.setattr(reproduce, "_fingerprints", lambda *_: {})
    (tmp_path / "data.csv").unlink()
    with pytest.raises(InputError, match=r"An input file is gone: .*data\.csv"):
        reproduce.obstacles(asked, None)


def differing(rows: list[reproduce.Row]) -> list[str]:
    return [row.what for row in rows if not row.same]


def test_deterministic_training_must_be_identical(tmp_path) -> None:
    asked = recalled(seen(tmp_path))
    assert differing(reproduce.compare(asked, seen(tmp_path))) == []
    other = seen(tmp_path, accuracy=0.9025, weights="b" * 64)
    assert differing(reproduce.compare(asked, other)) == ["trained weights", "accuracy of overall"]


def test_on_another_device_and_otherwise_accuracies_may_differ_by_chance(tmp_path) -> None:
    near, far = (seen(tmp_path, accuracy=value, weights="b" * 64) for value in (0.92, 0.80))
    plain = recalled(seen(tmp_path, deterministic=False))
    assert differing(reproduce.compare(plain, near)) == []
    assert differing(reproduce.compare(plain, far)) == ["accuracy of overall"]
    asked = recalled(seen(tmp_path))
    moved = replace(near.run, details={**near.run.details, "surroundings": {"device": "GPU"}})
    assert differing(reproduce.compare(asked, replace(near, run=moved))) == []


@pytest.mark.parametrize(
    ("accuracy", "examples", "expected"),
    [(0.9, 400, 0.0863), (1.0, 400, 0.0199), (0.5, 10_000, 0.0283), (0.9, 0, 1.0)],
)
def test_the_bound(accuracy, examples, expected) -> None:
    assert reproduce.allowed_difference(accuracy, examples) == pytest.approx(expected, abs=1e-4)


def test_only_versions_can_be_reproduced(source, recorded) -> None:
    with pytest.raises(NotFoundError, match="is no pushed version"):
        reproduce.recall(source, recorded.runs[0])

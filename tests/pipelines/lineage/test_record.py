"""What is recorded of a node, from the reports it left."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from pipelines.lineage import record
from pipelines.lineage.records import ArtifactRecord, NodeRecord
from pipelines.lineage.store import INPUT_FILE, Store


def artifact(folder: Path, name: str = "", content: object = None, **properties) -> ArtifactRecord:
    folder.mkdir(parents=True, exist_ok=True)
    if name:
        (folder / name).write_text(json.dumps(content))
    return ArtifactRecord(1, "Any", str(folder), properties)


def node(name: str, state: str = "complete", inputs=None, outputs=None, **properties) -> NodeRecord:
    return NodeRecord(name, 1, state, properties, inputs or {}, outputs or {})


def files_report(folder: Path, count: int) -> ArtifactRecord:
    folder.mkdir()
    rows = [
        {
            "path": f"/d/{n % 2}/{n}.png",
            "bytes": 10,
            "sha256": f"{n:064x}",
            "group": 0,
            "records": 1,
            "bad": 0,
        }
        for n in range(count)
    ]
    (folder / record.FILES).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ArtifactRecord(1, "IngestionReport", str(folder), {})


def test_surroundings_name_who_where_and_what() -> None:
    found = record.surroundings()
    assert {"environment_digest", "user", "host", "device"} <= set(found)
    assert all(value != "" for value in found.values())


def test_git_commit_and_dirty_flag(tmp_path) -> None:
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], check=True, capture_output=True)

    assert record._git(tmp_path) == {}
    git("init")
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/a.py").write_text("a = 1\n")
    git("add", ".")
    git("commit", "-m", "one")
    clean = record._git(tmp_path)
    assert clean["git_dirty"] == 0 and len(str(clean["git_commit"])) == 40
    (tmp_path / "notes.txt").write_text("not code of ours")
    assert record._git(tmp_path)["git_dirty"] == 0
    (tmp_path / "pipelines/new.py").write_text("b = 2\n")
    assert record._git(tmp_path)["git_dirty"] == 1


def test_no_git_is_no_error(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert record._git(tmp_path) == {}


def test_an_id_that_no_user_has(monkeypatch) -> None:
    def unknown() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert record._user().startswith("uid ")


@pytest.mark.parametrize(
    ("written", "properties", "expected"),
    [
        ({}, {}, 100),
        ({}, {"split": "test"}, 20),
        ({}, {"split": "test", "examples_count": 8}, 8),
        ({"transformed_examples": '["train", "validation"]'}, {}, 80),
    ],
)
def test_examples_that_went_through(tmp_path, written, properties, expected) -> None:
    sizes = {"examples_per_split": '{"train": 60, "validation": 20, "test": 20}'}
    outputs = {key: [artifact(tmp_path, split_names=names)] for key, names in written.items()}
    found = record.facts(
        node("N", inputs={"examples": [artifact(tmp_path, **sizes)]}, outputs=outputs, **properties), 2.0
    )
    assert found == {"examples": expected, "examples_per_s": expected / 2}


def test_a_cached_node_did_nothing(tmp_path) -> None:
    assert record.facts(node("Trainer", state="cached"), 1.0) == {}


def test_the_trainer_figures_are_of_the_kept_epoch(tmp_path) -> None:
    history = {"loss": [2.0, 1.0, 3.0], "val_loss": [2.5, 1.5, 3.5]}
    report = {"history": history, "best_epoch": 2, "epochs": 3, "parameters": 10, "examples_per_second": 5.0}
    found = record.facts(
        node(
            "Trainer",
            outputs={"model_run": [artifact(tmp_path, "history.json", report)]},
            custom_config='{"train": {"seed": 17}}',
        ),
        10.0,
    )
    assert json.loads(str(found.pop("metrics"))) == {"loss": 1.0, "val_loss": 1.5}
    assert found == {"seed": 17, "epochs": 3, "best_epoch": 2, "parameters": 10, "examples_per_s": 5.0}


def test_the_rewriter_keeps_candidates_and_reason(tmp_path) -> None:
    figures = {"size_bytes": 5, "latency_ms_p50": 1.0, "accuracy": 0.9, "load_ms": 3}
    rows = [
        {"name": "frozen", "qualified": True, "reason": "better", "figures": figures},
        {"name": "int8", "qualified": False, "reason": "it could not be built", "figures": None},
    ]
    report = {"chosen": "frozen", "reason": "best latency", "candidates": rows}
    found = record.facts(
        node("Rewriter", outputs={"report": [artifact(tmp_path, "candidates.json", report)]}), 1.0
    )
    assert (found["chosen"], found["reason"]) == ("frozen", "best latency")
    first, second = json.loads(str(found["candidates"]))
    assert first["size_bytes"] == 5 and "load_ms" not in first
    assert second["accuracy"] is None


def test_the_evaluator_and_the_pusher(tmp_path) -> None:
    metrics = {"candidate": {"overall": {"accuracy": 0.9}}, "baseline": {"overall": {"accuracy": 0.8}}}
    summary = {"blessed": True, "failures": [], "metrics": metrics}
    evaluation = artifact(tmp_path, "summary.json", summary)
    assert record.facts(node("Evaluator", outputs={"evaluation": [evaluation]}), 1.0) == {
        "blessed": 1,
        "accuracy": 0.9,
        "baseline_accuracy": 0.8,
    }
    pushed = artifact(tmp_path, pushed=1, pushed_version="3", pushed_destination="/s/m/3", other="x")
    assert record.facts(node("Pusher", outputs={"pushed_model": [pushed]}), 1.0) == {
        "pushed": 1,
        "pushed_version": "3",
        "pushed_destination": "/s/m/3",
    }


def test_reports_that_are_gone_leave_nothing(tmp_path) -> None:
    for name in ("ExampleGen", "Trainer", "Rewriter", "Evaluator", "Pusher"):
        assert record.facts(node(name), 1.0) == {}


def test_input_files_one_by_one(tmp_path) -> None:
    found = record.input_files(node("ExampleGen", outputs={"report": [files_report(tmp_path / "r", 4)]}))
    assert [file.path for file in found] == ["/d/0/0.png", "/d/1/1.png", "/d/0/2.png", "/d/1/3.png"]
    assert {file.files for file in found} == {1}
    assert record.input_files(node("ExampleGen", state="cached")) == []
    assert record.input_files(node("Trainer")) == []


def test_very_many_input_files_by_their_folders(tmp_path) -> None:
    many = record.MAX_FILES + 1
    report = files_report(tmp_path / "r", many)
    found = record.input_files(node("ExampleGen", outputs={"report": [report]}))
    assert sorted(file.path for file in found) == ["/d/0", "/d/1"]
    assert sum(file.files for file in found) == sum(file.records for file in found) == many
    assert sum(file.bytes for file in found) == 10 * many
    again = record.input_files(node("ExampleGen", outputs={"report": [report]}))
    assert found == again


def test_a_file_read_twice_is_one_artifact_with_two_readers(recorded, tmp_path) -> None:
    import shutil

    path = tmp_path / "metadata.db"
    shutil.copy(recorded.path, path)
    file = ArtifactRecord(0, INPUT_FILE, "/d/a.csv", {"sha256": "1", "bytes": 1, "files": 1, "records": 1})
    other = ArtifactRecord(0, INPUT_FILE, "/d/a.csv", {"sha256": "2", "bytes": 1, "files": 1, "records": 1})
    with Store(path) as store:
        store.link_inputs(1, INPUT_FILE, "files", [file])
        store.link_inputs(11, INPUT_FILE, "files", [file, other])
        first, second = store.node(1).inputs["files"], store.node(11).inputs["files"]
    mine = [[a for a in group if a.uri == "/d/a.csv"] for group in (first, second)]
    assert len(mine[0]) == 1
    assert mine[0][0] in mine[1] and len(mine[1]) == 2

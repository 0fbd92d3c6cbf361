"""What differs between two runs, and why a version is as it is: on made-up views."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pipelines.lineage import explain, models, query
from pipelines.lineage.compare import MANY, Difference, compare, flat
from pipelines.lineage.records import ArtifactRecord, RunRecord
from pipelines.lineage.source import Execution, Push
from pipelines.lineage.view import NodeView, RunView, view


def run(**changes) -> RunRecord:
    details = {
        "config": json.dumps(
            {"train": {"seed": 17}, "model": {"name": "net"}, "evaluation": {"min_accuracy": 0.9}}
        ),
        "packages": {"keras": "3.15.1"},
        "surroundings": {"user": "ada", "host": "mill", "git_commit": "c" * 40, "git_dirty": 1},
        "summary": {
            "examples": {"train": 6, "validation": 2, "test": 2},
            "accuracy": 0.95,
            "chosen": "frozen",
            "reason": "best latency of 2 qualified",
            "candidates": [{}, {}, {}],
            "pushed_version": "3",
        },
    }
    return RunRecord("m-1-aaaa", "m", "complete", 0.0, 60.0, {**details, **changes})


def node(name: str, **properties) -> NodeView:
    execution = Execution(1, name, "m-1-aaaa", "complete", 0.0, properties)
    return NodeView(execution, execution, {}, {})


def files(**digests: str) -> list[ArtifactRecord]:
    return [
        ArtifactRecord(number, "InputFile", f"/d/{name}.csv", {"sha256": digest, "files": 1, "records": 5})
        for number, (name, digest) in enumerate(digests.items())
    ]


FIRST = RunView(
    run(),
    {
        "ExampleGen": node("ExampleGen", data_digest="d", code_fingerprint="e"),
        "Trainer": node(
            "Trainer", code_fingerprint="t", seed=17, epochs=9, best_epoch=8, metrics='{"loss": 0.5}'
        ),
    },
    files(a="1", b="2"),
)


def test_equal_runs_do_not_differ() -> None:
    assert compare(FIRST, replace(FIRST, run=replace(FIRST.run, run_id="m-2", started=9.0))) == []


def test_causes_come_before_effects() -> None:
    config = json.dumps(
        {"train": {"seed": 18}, "model": {"name": "net"}, "evaluation": {"min_accuracy": 0.9}}
    )
    summary = {**FIRST.summary, "accuracy": 0.5, "chosen": "int8", "pushed_version": ""}
    second = RunView(
        run(config=config, packages={"keras": "3.16.0", "new": "1"}, summary=summary),
        {**FIRST.nodes, "Trainer": node("Trainer", code_fingerprint="other", metrics='{"loss": 0.7}')},
        files(a="1", b="3", c="4"),
    )
    found = compare(FIRST, second)
    order = [item.section for item in found]
    assert order == sorted(order, key=list(dict.fromkeys(order)).index)
    assert list(dict.fromkeys(order)) == [
        "data", "code", "configuration", "versions", "chosen candidate", "metrics", "outcome",
    ]  # fmt: skip
    for expected in (
        Difference("data", "/d/b.csv", "2", "3"),
        Difference("data", "/d/c.csv", "", "4"),
        Difference("code", "code of Trainer", "t", "other"),
        Difference("configuration", "train.seed", "17", "18"),
        Difference("versions", "keras", "3.15.1", "3.16.0"),
        Difference("versions", "new", "", "1"),
        Difference("chosen candidate", "candidate", "frozen", "int8"),
        Difference("metrics", "accuracy", "0.95", "0.5"),
        Difference("metrics", "training loss", "0.5", "0.7"),
        Difference("outcome", "pushed version", "3", ""),
    ):
        assert expected in found


def test_very_many_files_are_counted() -> None:
    many = files(**{f"f{number}": "1" for number in range(MANY + 1)})
    found = compare(FIRST, replace(FIRST, input_files=many))
    assert found == [
        Difference("data", "input files", "", f"{MANY + 1} added, 2 removed, 0 with other content")
    ]


def test_unrecorded_files_still_differ_by_their_digest() -> None:
    bare = [
        replace(FIRST, input_files=[], nodes={"ExampleGen": node("ExampleGen", data_digest=digest)})
        for digest in ("aaaa", "bbbb")
    ]
    assert Difference("data", "digest of all input", "aaaa", "bbbb") in compare(*bare)


def test_schemas_differ_by_feature(tmp_path) -> None:
    views = []
    for name, text in (
        ("one", 'feature { name: "x" type: INT }'),
        ("two", 'feature { name: "x" type: FLOAT }'),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "schema.pbtxt").write_text(text)
        schema = replace(
            node("SchemaGen"), outputs={"schema": [ArtifactRecord(1, "Schema", str(folder), {})]}
        )
        views.append(replace(FIRST, nodes={**FIRST.nodes, "SchemaGen": schema}))
    found = compare(*views)
    assert [(item.section, item.what) for item in found] == [("schema", "feature x")]
    assert "INT" in found[0].before and "FLOAT" in found[0].after


def test_flat_settings() -> None:
    assert flat({"a": {"b": {"c": 1}}, "d": [1]}) == {"a.b.c": 1, "d": [1]}


def test_why_says_data_metric_candidate_and_who() -> None:
    push = Push(1, "m", 3, "/s/m/3", 100.0)
    text = explain.why(push, FIRST, "")
    for part in (
        "m@3 was trained on 6 of 10 examples from 2 files in /d",
        "net trained with seed 17 for 9 epochs, of which epoch 8 was kept",
        "Of 3 candidates frozen went on: best latency of 2 qualified.",
        "Its accuracy on the test split is 0.9500 (required: 0.9), with no earlier model to compare with.",
        "pushed to /s/m/3",
        "by ada on mill, by run m-1-aaaa, from commit cccccccccccc with uncommitted changes.",
    ):
        assert part in text
    assert "\n" not in text


def test_why_names_the_baseline() -> None:
    summary = {**FIRST.summary, "baseline_accuracy": 0.9}
    seen = replace(FIRST, run=run(summary=summary))
    push = Push(1, "m", 3, "/s/m/3", 100.0)
    assert "against 0.9000 of m@2." in explain.why(push, seen, "m@2")
    assert "against 0.9000 of the latest blessed model." in explain.why(push, seen, "")


def test_why_with_hardly_anything_recorded() -> None:
    bare = RunView(RunRecord("r", "m", "complete", 0.0, None), {}, [])
    text = explain.why(Push(1, "m", 3, "/s/m/3", 100.0), bare, "")
    assert text.startswith("m@3 was trained on files that were not recorded.")


@pytest.fixture
def views(source, recorded):
    return {run_id: view(source, query.find_run(source, run_id)) for run_id in recorded.runs}


def test_a_view_knows_who_did_a_cached_node_s_work(source, views) -> None:
    cached = [
        (seen, item)
        for seen in views.values()
        for item in seen.nodes.values()
        if item.execution.state == "cached"
    ]
    assert cached
    for seen, item in cached:
        assert item.maker.state == "complete"
        assert item.maker.node == item.execution.node
        assert item.maker.run_id != seen.run.run_id
    assert {len(seen.input_files) for seen in views.values()} == {4}


def test_versions_with_state_and_run(source, tmp_path, monkeypatch) -> None:
    pushes = source.pushes("digits")[:4]
    for place in ("1", "2", ".withdrawn/3"):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "saved_model.pb").write_bytes(b"x" * 10)
    moved = [replace(push, destination=str(tmp_path / str(push.version))) for push in pushes]
    monkeypatch.setattr(source, "pushes", lambda model=None: moved)
    found = models.versions(source)
    assert [(item.push.version, item.state, item.bytes) for item in found] == [
        (4, "removed", None),
        (3, "withdrawn", 10),
        (2, "serving", 10),
        (1, "kept", 10),
    ]
    assert all(item.run_id.startswith("digits-") for item in found)
    assert len(models.versions(source, limit=1)) == 1


def test_the_baseline_s_version(source) -> None:
    """The servable an Evaluator compared with leads to the version it was pushed as."""
    newest = query.find_push(source, "digits", "latest")
    seen = view(source, query.run_of(source, newest))
    name = models.baseline_of(source, seen)
    compared = seen.nodes["Evaluator"].inputs["baseline_model"][0]
    versions = models.versions_of(source, compared.id)
    assert name == (versions[0].name if versions else "")

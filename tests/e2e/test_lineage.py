"""What a run records and what is asked of it, on the first node of the chain: a few seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.lineage import record
from pipelines.lineage.store import INPUT_FILE, Store

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def workspace(headrace, tmp_path_factory) -> Path:
    """A workspace in which ExampleGen ran, and then was taken from the cache."""
    root = tmp_path_factory.mktemp("lineage") / "workspace"
    for _ in range(2):
        done = headrace("run", "digits", "--to", "ExampleGen", "--workspace", str(root))
        assert done.code == 0, done.err
    return root


@pytest.fixture(scope="module")
def nodes(workspace):
    with Store(workspace / "metadata.db") as store:
        return [store.nodes(run.run_id)[0] for run in reversed(store.runs())]


def test_a_node_s_execution_says_who_where_and_how_much(nodes) -> None:
    first, second = nodes
    assert (first.state, second.state) == ("complete", "cached")
    for node in nodes:
        properties = node.properties
        assert {"code_fingerprint", "environment_digest", "user", "host", "device"} <= set(properties)
        assert properties["wall_s"] > 0 and properties["cpu_s"] > 0 and properties["peak_memory_mb"] > 0
    assert first.properties["examples"] == 1797
    assert first.properties["input_files"] == 4
    assert first.properties["examples_per_s"] > 0
    assert "examples" not in second.properties


def test_every_input_file_is_recorded_with_its_digest(nodes, workspace) -> None:
    import hashlib

    shards = sorted((workspace / "data/digits").glob("*.tfrecord"))
    linked = nodes[0].inputs["files"]
    assert [file.type for file in linked] == [INPUT_FILE] * 4
    assert sorted(file.uri for file in linked) == [str(path) for path in shards]
    for file in linked:
        content = Path(file.uri).read_bytes()
        assert file.properties["sha256"] == hashlib.sha256(content).hexdigest()
        assert file.properties["bytes"] == len(content)
    assert sum(file.properties["records"] for file in linked) == 1797
    report = Path(nodes[0].outputs["report"][0].uri, record.FILES)
    groups = [json.loads(line)["group"] for line in report.read_text().splitlines()]
    assert groups == [0, 1, 2, 3]  # rows of a file are in the shards of its group


def test_a_linked_file_changes_no_cache_key(nodes) -> None:
    assert [a.id for a in nodes[0].outputs["examples"]] == [a.id for a in nodes[1].outputs["examples"]]
    assert nodes[1].state == "cached"


def test_a_file_leads_to_the_examples_and_back(headrace, workspace) -> None:
    file = str(next((workspace / "data/digits").glob("*.tfrecord")))
    down = headrace("lineage", file, "--workspace", str(workspace))
    assert down.code == 0 and "examples: Examples" in down.out
    up = headrace("lineage", "latest", "--workspace", str(workspace))
    assert up.code == 0 and file in up.out


def test_the_two_runs_do_not_differ(headrace, workspace) -> None:
    with Store(workspace / "metadata.db") as store:
        second, first = (run.run_id for run in store.runs())
    done = headrace("diff", first, second, "--workspace", str(workspace))
    assert (done.code, done.out) == (0, "Nothing differs but times and costs.\n")


def test_a_report_of_a_run_that_went_so_far(headrace, workspace, tmp_path) -> None:
    done = headrace("report", "latest", "-o", str(tmp_path / "r.html"), "--workspace", str(workspace))
    assert done.code == 0, done.err
    html = (tmp_path / "r.html").read_text()
    assert 'id="node-ExampleGen"' in html and "Examples per class" in html


def test_a_node_that_fails_is_recorded_too(headrace, workspace, tmp_path) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "a.tfrecord").write_bytes(b"no records at all")
    experiment = tmp_path / "bad.yaml"
    experiment.write_text(f"data: {{path: {bad}}}\nmodel: {{height: 8, width: 8, channels: 1}}\n")
    done = headrace("run", str(experiment), "--to", "ExampleGen", "--workspace", str(workspace))
    assert done.code == 2, done.out
    with Store(workspace / "metadata.db") as store:
        node = store.nodes(store.runs()[0].run_id)[0]
    assert node.state == "failed"
    assert {"user", "host", "wall_s"} <= set(node.properties)
    assert "TFRecord file is damaged" in str(node.properties["error"])

"""What a whole, deterministic run records; that it can be reproduced; and that cleaning breaks no cache."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pipelines.lineage.store import Store

pytestmark = pytest.mark.e2e

EXPERIMENT = """
name: small
data: {path: %s}
model: {height: 8, width: 8, channels: 1, filters: [8]}
train: {epochs: 2, deterministic: true, seed: 5, batch_size: 64}
rewrite: {candidates: [frozen], max_drop: 100}
evaluation: {min_accuracy: 0.0}
validation: {drift: {default: null}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with the digits' scans and an experiment over them."""
    from pipelines.datasets import digits

    root = tmp_path_factory.mktemp("reproduce")
    digits.write(root / "scans")
    (root / "small.yaml").write_text(EXPERIMENT % "scans")
    return root


@pytest.fixture(scope="module")
def first(headrace, folder):
    """The run. Its paths are relative to the folder it is given in."""
    done = headrace("run", "small.yaml", "--workspace", str(folder / "w"), cwd=folder)
    assert done.code == 0, done.out + done.err
    return done


@pytest.fixture(scope="module")
def nodes(first, folder):
    with Store(folder / "w/metadata.db") as store:
        return {node.node: node for node in store.nodes(store.find_run("latest").run_id)}


def test_every_node_says_who_where_on_what_and_what_it_cost(nodes) -> None:
    for name, node in nodes.items():
        if name in ("Baseline", "EarlierStatistics"):
            continue  # they look something up, and do no work
        properties = node.properties
        assert re.fullmatch(r"[0-9a-f]{64}", str(properties["code_fingerprint"])), name
        assert re.fullmatch(r"[0-9a-f]{64}", str(properties["environment_digest"])), name
        assert re.fullmatch(r"[0-9a-f]{40}", str(properties["git_commit"])), name
        assert properties["git_dirty"] in (0, 1), name
        assert all(properties[key] for key in ("user", "host", "device")), name
        assert all(properties[key] > 0 for key in ("wall_s", "cpu_s", "peak_memory_mb", "output_bytes")), name


def test_counts_and_throughput(nodes) -> None:
    counted = (
        "ExampleGen",
        "StatisticsGen",
        "Transform",
        "Trainer",
        "Rewriter",
        "Evaluator",
        "InfraValidator",
    )
    for name in counted:
        assert nodes[name].properties["examples"] > 0, name
        assert nodes[name].properties["examples_per_s"] > 0, name


def test_input_files_are_artifacts_with_digests(nodes, folder) -> None:
    files = nodes["ExampleGen"].inputs["files"]
    assert sorted(file.uri for file in files) == sorted(map(str, (folder / "scans").glob("*.tfrecord")))
    assert all({"sha256", "bytes", "records"} <= set(file.properties) for file in files)


def test_training_says_its_settings_choices_and_results(nodes) -> None:
    properties = nodes["Trainer"].properties
    told = json.loads(str(properties["custom_config"]))
    assert told["train"]["seed"] == properties["seed"] == 5
    assert (told["train"]["batch_size"], told["model"]["filters"]) == (64, [8])
    assert len(told["train"]) > 30  # all of them, defaults included
    assert (properties["precision"], properties["xla"]) == ("float32", "off")
    assert re.fullmatch(r"[0-9a-f]{64}", str(properties["weights_sha256"]))
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= set(json.loads(str(properties["metrics"])))


def test_rewriting_says_every_candidate_and_the_reason(nodes) -> None:
    properties = nodes["Rewriter"].properties
    rows = {row["name"]: row for row in json.loads(str(properties["candidates"]))}
    for row in rows.values():
        assert row["reason"], row["name"]
    for name in ("identity", "frozen"):  # the others are not asked for
        assert all(rows[name][key] for key in ("size_bytes", "latency_ms_p50", "accuracy")), name
    assert properties["chosen"] in rows and properties["reason"]


def test_evaluation_and_push(nodes, folder) -> None:
    assert 0 < nodes["Evaluator"].properties["accuracy"] <= 1
    assert nodes["Evaluator"].properties["blessed"] == 1
    pushed = nodes["Pusher"].properties
    assert (pushed["pushed"], pushed["pushed_version"]) == (1, "1")
    assert pushed["pushed_destination"] == str(folder / "w/serving/small/1")


def test_the_confusion_counts_every_test_example(nodes) -> None:
    path = Path(nodes["Evaluator"].outputs["evaluation"][0].uri, "confusion.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    summary = json.loads(path.with_name("summary.json").read_text())["metrics"]["candidate"]["overall"]
    assert sum(row["examples"] for row in rows) == summary["example_count"]
    right = sum(row["examples"] for row in rows if row["label"] == row["predicted"])
    assert right / summary["example_count"] == pytest.approx(summary["accuracy"], abs=1e-6)


def test_the_chain_s_waits_are_recorded(first, folder, headrace) -> None:
    """The gate hands Transform nothing, and yet comes before it."""
    with Store(folder / "w/metadata.db") as store:
        assert "DataGate" in store.find_run("latest").details["upstream"]["Transform"]
    done = headrace("report", "latest", "-o", str(folder / "r.html"), "--workspace", str(folder / "w"))
    assert done.code == 0, done.err
    html = (folder / "r.html").read_text()
    assert html.count('class="arrow dashed"') >= 1 and "Confusion on the test split" in html


def test_it_is_reproduced_bit_by_bit(first, headrace, folder) -> None:
    done = headrace("reproduce", "small@1", "--workspace", str(folder / "w"))
    assert done.code == 0, done.out + done.err
    assert "small@1 is reproduced." in done.out
    assert re.search(r"trained weights .*identical", done.out)
    assert re.search(r"accuracy of overall .*identical", done.out)
    assert "may differ" not in done.out and "apart" not in done.out


def test_changed_data_is_refused_by_name(first, headrace, folder) -> None:
    file = sorted((folder / "scans").glob("*.tfrecord"))[0]
    kept = folder / "kept"
    shutil.copy(file, kept)
    try:
        with open(file, "ab") as opened:
            opened.write(b"\0")
        done = headrace("reproduce", "small@1", "--workspace", str(folder / "w"))
        assert done.code == 2 and "1 things differ" in done.err and f"data {file}" in done.err
        file.unlink()
        gone = headrace("reproduce", "small@1", "--allow", "--workspace", str(folder / "w"))
        assert gone.code == 2 and f"An input file is gone: {file}" in gone.err
    finally:
        shutil.copy(kept, file)


def test_cleaning_keeps_what_is_served_and_breaks_no_cache(first, headrace, folder) -> None:
    workspace = str(folder / "w")
    other = headrace(
        "run", "small.yaml", "--set", "train.seed=6", "--to", "Trainer", "--workspace", workspace, cwd=folder
    )
    assert other.code == 0, other.err
    plan = headrace("gc", "--keep-runs", "1", "--keep-days", "0", "--dry-run", "--workspace", workspace)
    assert plan.code == 0 and "1 pushed small@1, which is there" in plan.out, plan.out
    done = headrace("gc", "--keep-runs", "1", "--keep-days", "0", "--workspace", workspace)
    assert done.code == 0 and "MB freed" in done.out
    again = headrace("run", "small.yaml", "--workspace", workspace, cwd=folder)
    assert "Nodes       0 executed, 11 cached" in again.out, again.out
    cost = headrace("cost", "--by", "node", "--output", "json", "--workspace", workspace)
    rows = {row["name"]: row for row in json.loads(cost.out)}
    assert (rows["Trainer"]["executed"], rows["Trainer"]["cached"]) == (2, 1)
    assert rows["Trainer"]["bytes"] > 0 and rows["Trainer"]["cpu_s"] > 0

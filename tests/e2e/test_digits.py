"""The digits chain, once, from the command line; then what a user sees of it.

The tests of this file run in order and share one workspace: the first runs
everything, the later ones rely on what it left.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from components.serving import manifest
from components.serving.examples import read_split
from components.serving.servable import size_bytes
from pipelines import api
from pipelines.errors import NotFoundError
from pipelines.lineage.store import Store
from pipelines.summary import RESOLVERS
from tests import keys
from tests.conftest import ROOT, SECRETS
from tests.docs.pages import ON_DIGITS, name_of
from tests.docs.shell import Shell, run_page
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

NODES = {
    "ExampleGen": {"examples", "report", "quarantine"},
    "StatisticsGen": {"statistics"},
    "SchemaGen": {"schema"},
    "ExampleValidator": {"anomalies"},
    "DataGate": {"report"},
    "Transform": {"transform_graph", "transformed_examples"},
    "Trainer": {"model", "model_run"},
    "Rewriter": {"servable", "report"},
    "EarlierStatistics": set(),
    "Baseline": set(),
    "Evaluator": {"evaluation", "blessing"},
    "InfraValidator": {"blessing"},
    "Pusher": {"pushed_model"},
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("digits") / "workspace"


@pytest.fixture(scope="module")
def first(headrace, workspace):
    """The first run of all."""
    return headrace("run", "digits", "--workspace", str(workspace))


@pytest.fixture(scope="module")
def nodes(first, workspace):
    with Store(workspace / "metadata.db") as store:
        return {node.node: node for node in store.nodes(store.find_run("latest").run_id)}


def test_the_command_ends_well_and_sums_up(first, workspace) -> None:
    assert first.code == 0, first.err
    assert re.search(r"Examples +357 test, 1,073 train, 367 validation", first.out)
    accuracy = re.search(r"Accuracy +(0\.\d{4}) on the test split \(no earlier model", first.out)
    assert accuracy and float(accuracy.group(1)) >= 0.97
    for candidate in ("identity", "frozen", "float16"):
        assert re.search(rf"^ +{candidate}", first.out, re.MULTILINE)
    assert f"version 1 in {workspace}/serving/digits/1" in first.out
    assert "Nodes       11 executed, 0 cached" in first.out
    assert "Next        headrace show digits-" in first.out
    assert f"            headrace serve --model-root {workspace}/serving" in first.out


def test_library_chatter_stays_out_of_the_output(first) -> None:
    assert first.err == ""
    for noise in ("WARNING", "absl", "oneDNN", "Traceback"):
        assert noise not in first.out


def test_the_pushed_model_answers_with_plain_tensorflow(first, workspace) -> None:
    """On scans of the test split, through both signatures, in a process without our code."""
    code = f"""
import glob, json, sys
import numpy as np, tensorflow as tf
model = tf.saved_model.load({str(workspace / "serving/digits/1")!r})
files = glob.glob({str(workspace / "artifacts/digits/ExampleGen/examples/*/Split-test/*")!r})
records = list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator())
spec = {{"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)}}
parsed = tf.io.parse_example(records, spec)
by_example = model.signatures["serving_default"](examples=tf.constant(records))
by_image = model.signatures["predict_image"](image_bytes=parsed["image"])
top = tf.gather(by_example["classes"][0], tf.argmax(by_example["scores"], 1))
print(json.dumps({{
    "count": len(records),
    "accuracy": float(np.mean(top.numpy() == parsed["label"].numpy())),
    "sums": by_example["scores"].numpy().sum(1).tolist(),
    "difference": float(np.abs(by_example["scores"] - by_image["scores"]).max()),
    "classes": sorted(name.decode() for name in by_image["classes"][0].numpy()),
    "ours": [name for name in sys.modules if name.split(".")[0] in ("modules", "components", "pipelines")],
}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["count"] == 357
    assert answer["accuracy"] >= 0.97
    assert answer["difference"] < 1e-6
    assert answer["classes"] == [str(digit) for digit in range(10)]
    assert answer["ours"] == []
    np.testing.assert_allclose(answer["sums"], 1.0, atol=1e-5)


@pytest.mark.parametrize("page", ON_DIGITS, ids=name_of)
def test_the_commands_of_a_guide(first, workspace, tmp_path, page: Path) -> None:
    """Shell and Python as they stand there, but for ports."""
    with Shell(tmp_path, workspace) as shell:
        assert run_page(page, shell) > 0


def test_metadata_holds_every_execution_and_artifact(nodes) -> None:
    assert set(nodes) == set(NODES)
    for name, outputs in NODES.items():
        assert nodes[name].state == "complete", name
        if name not in RESOLVERS:
            assert set(nodes[name].outputs) == outputs, name
            assert re.fullmatch(r"[0-9a-f]{64}", nodes[name].properties["code_fingerprint"]), name
            assert nodes[name].properties["wall_s"] > 0, name
        for artifacts in nodes[name].outputs.values():
            assert all(Path(artifact.uri).exists() for artifact in artifacts), name


def test_the_pushed_bytes_are_the_blessed_bytes(nodes, workspace) -> None:
    servable = nodes["Rewriter"].outputs["servable"][0]
    blessing = nodes["Evaluator"].outputs["blessing"][0]
    pushed = workspace / "serving" / "digits" / "1"
    assert blessing.properties["blessed"] == 1
    assert blessing.properties["current_model_id"] == servable.id
    assert nodes["InfraValidator"].inputs["model"][0].id == servable.id
    source = Path(servable.uri, "Format-Serving")
    for path in source.rglob("*"):
        if path.is_file():
            assert (pushed / path.relative_to(source)).read_bytes() == path.read_bytes()
    names = {path.relative_to(pushed) for path in pushed.rglob("*") if path.is_file()}
    added = names - {path.relative_to(source) for path in source.rglob("*")}
    extra = {"mlmd_uuid", "headrace.json", "tf_serving_warmup_requests"}
    assert added == {Path("assets.extra", name) for name in extra}
    stamp = json.loads((pushed / "assets.extra" / "mlmd_uuid").read_text())
    assert stamp["servable"] == str(servable.id)
    assert stamp["run"].startswith("digits-")
    assert size_bytes(source) <= size_bytes(Path(nodes["Trainer"].outputs["model"][0].uri, "Format-Serving"))


def test_the_manifest_says_what_was_pushed_and_why(nodes, workspace) -> None:
    pushed = workspace / "serving" / "digits" / "1"
    assert manifest.faults(pushed) == []
    found = manifest.read(pushed)
    assert found["run"].startswith("digits-")
    assert found["chosen"]["name"] == nodes["Rewriter"].outputs["servable"][0].properties["technique"]
    assert found["metrics"]["overall"]["accuracy"] >= 0.97
    assert len(found["canary"]["examples"]) == 8


def test_what_was_pushed_is_handed_on(headrace, first, workspace, tmp_path) -> None:
    card = (workspace / "reports" / "digits-1.card.md").read_text()
    assert (workspace / "reports" / "digits-1.card.html").exists()
    assert "| label | train | string | 0.0% | 10 distinct;" in card
    assert re.search(r"^\| overall \| 357 \| 0\.9\d+ \(0\.9\d+ to 0?\.?\d+\) \|$", card, re.MULTILINE)
    place = ("--workspace", str(workspace))
    printed = headrace("models", "card", "digits@1", *place)
    assert (printed.code, printed.out) == (0, card)
    private, public = keys.make(tmp_path)
    assert headrace("models", "sign", "digits@1", "--key", str(private), *place).code == 0
    assert headrace("models", "verify", "digits@1", "--key", str(public), *place).code == 0
    archive = tmp_path / "digits.zip"
    assert headrace("models", "export", "digits@1", "-o", str(archive), *place).code == 0
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "out")
    unpacked = tmp_path / "out" / "digits" / "1"
    assert manifest.faults(unpacked) == []
    with (unpacked / "saved_model.pb").open("ab") as file:
        file.write(b"x")
    refused = headrace("models", "verify", str(unpacked), "--key", str(public))
    assert refused.code == 1 and "saved_model.pb has changed" in refused.err
    (workspace / "serving" / "digits" / "1" / "model.sig").unlink()


def test_a_server_was_measured(first, nodes) -> None:
    assert re.search(r"Validated +in .+: cold load \d+\.\d s, one example .* MiB", first.out)
    figures = json.loads(nodes["InfraValidator"].outputs["blessing"][0].properties["figures"])
    assert 0 < figures["p50_ms"] <= figures["p99_ms"]


def test_candidates_were_measured_and_the_choice_recorded(nodes) -> None:
    report = json.loads(Path(nodes["Rewriter"].outputs["report"][0].uri, "candidates.json").read_text())
    figures = {row["name"]: row["figures"] for row in report["candidates"] if row["figures"]}
    without = {row["name"]: row for row in report["candidates"] if not row["figures"]}
    assert without["tf_trt_float16"]["state"] == "cannot_run"
    assert without["int8_static"]["state"] == "left_out" and without["int8_static"]["reason"]
    assert set(figures) == {"identity", "frozen", "float16"}
    assert figures["float16"]["size_bytes"] < figures["frozen"]["size_bytes"]
    assert all(item["examples"] == 367 and item["agreement"] > 0.99 for item in figures.values())
    assert all(item["latency_ms_p50"] > 0 and item["load_ms"] > 0 for item in figures.values())
    assert report["chosen"] == nodes["Rewriter"].outputs["servable"][0].properties["technique"]


@pytest.mark.parametrize("repetition", [2, 3])
def test_identical_runs_execute_and_push_nothing(headrace, first, workspace, repetition: int) -> None:
    done = headrace("run", "digits", "--workspace", str(workspace))
    assert done.code == 0, done.err
    assert "Nodes       0 executed, 11 cached" in done.out
    assert "nothing new: this model was pushed before" in done.out
    assert sorted(path.name for path in (workspace / "serving/digits").glob("[0-9]*")) == ["1"]


def test_a_watched_run_tells_what_happens_as_json(headrace, first, workspace) -> None:
    watched = ("--log-format", "json", "--metrics-port", "0")
    done = headrace("run", "digits", "--workspace", str(workspace), *watched)
    assert (done.code, done.out) == (0, "")
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert lines[0]["event"] == "metrics.listening"
    assert lines[0]["url"].startswith("http://127.0.0.1:")
    nodes = {line["node"]: line["state"] for line in lines if line["event"] == "node.ended"}
    assert {name for name, state in nodes.items() if state == "cached"} == set(NODES) - set(RESOLVERS)
    ended = lines[-1]
    assert (ended["event"], ended["experiment"], ended["state"]) == ("run.ended", "digits", "complete")
    assert ended["run"] == lines[1]["run"]
    assert set(ended["cached"]) == set(NODES) - set(RESOLVERS)
    assert (ended["executed"], ended["pushed"]) == ([], False)


def test_a_changed_setting_runs_what_depends_on_it(headrace, first, workspace) -> None:
    done = headrace(
        "run", "digits", "--workspace", str(workspace), "--set", "infra.examples=8", "--to", "InfraValidator"
    )
    assert done.code == 0, done.err
    assert re.search(r"InfraValidator +done", done.out)
    assert re.search(r"Rewriter +cached", done.out)


def test_changed_code_is_not_cached(first, workspace, tmp_path) -> None:
    """An edit in a helper that preprocessing imports re-runs Transform, and nothing before it."""
    for package in ("pipelines", "components", "modules"):
        shutil.copytree(ROOT / package, tmp_path / package)
    helper = tmp_path / "modules" / "image" / "decode.py"
    helper.write_text(helper.read_text() + "\n\ndef unused() -> int:\n    return 1\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pipelines.cli.main", "run", "digits"),
            *("--workspace", str(workspace), "--to", "Transform"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"DataGate +cached", done.stdout)
    assert re.search(r"Transform +done", done.stdout)


def test_a_run_can_start_at_a_node(headrace, first, workspace) -> None:
    done = headrace(
        "run",
        "digits",
        "--workspace",
        str(workspace),
        "--from",
        "Evaluator",
        "--to",
        "Evaluator",
        "--no-cache",
    )
    assert done.code == 0, done.err
    assert re.search(r"Evaluator +done", done.out)
    assert "Nodes       1 executed" in done.out


def test_a_model_below_its_threshold_is_refused(headrace, first, workspace) -> None:
    done = headrace("run", "digits", "--workspace", str(workspace), "--set", "evaluation.min_accuracy=0.9999")
    assert done.code == 1, done.err
    assert "accuracy on all examples is" in done.out
    assert "expected at least 0.9999" in done.out
    assert "Pushed      no; refused by evaluation" in done.out
    assert sorted(path.name for path in (workspace / "serving/digits").glob("[0-9]*")) == ["1"]


def test_a_servable_over_its_limit_is_not_pushed(headrace, first, workspace) -> None:
    limit = "infra.max_p99_ms=0.01"
    done = headrace("run", "digits", "--workspace", str(workspace), "--set", limit)
    assert done.code == 1, done.err
    assert "not blessed: the 99th percentile of" in done.out
    assert "Pushed      no; refused by infra validation: the 99th percentile of" in done.out
    assert "In service  version 1" in done.out


def test_ctrl_c_ends_a_run_cleanly(headrace, first, workspace) -> None:
    """While the Trainer runs: its process ends, metadata says so, and the same command goes on."""
    arguments = (
        "run",
        "digits",
        "--workspace",
        str(workspace),
        "--set",
        "train.epochs=2000",
        "--to",
        "Trainer",
    )
    runs = workspace / "runs"
    before = set(runs.glob("digits-*"))

    def interrupt(pid: int) -> None:
        def training() -> bool:
            started = [
                path for path in set(runs.glob("digits-*")) - before if (path / "Trainer.log").exists()
            ]
            return any("epoch 2/" in (path / "Trainer.log").read_text() for path in started)

        wait_until(training)
        os.kill(pid, signal.SIGINT)

    done = headrace(*arguments, meanwhile=interrupt)
    assert done.code == 1
    assert "The run was interrupted" in done.err
    assert "finished nodes are taken from the cache" in done.err
    with Store(workspace / "metadata.db") as store:
        record = store.find_run("latest")
        assert record.state == "interrupted"
        assert {node.node: node.state for node in store.nodes(record.run_id)}["Trainer"] == "canceled"


def test_runs_and_show_tell_what_happened(headrace, first, workspace) -> None:
    listed = headrace("runs", "--workspace", str(workspace))
    assert listed.code == 0
    for state in ("complete", "refused", "interrupted"):
        assert state in listed.out
    first_id = re.search(r"headrace show (\S+)", first.out)
    assert first_id
    shown = headrace("show", first_id.group(1), "--workspace", str(workspace))
    assert shown.code == 0
    for name in NODES:
        assert re.search(rf"{name} +executed", shown.out), name
    assert f"{workspace}/serving/digits/1" in shown.out


def test_a_cached_run_after_a_rollback_says_what_is_in_service(headrace, first, workspace) -> None:
    infra = headrace("run", "digits", "--workspace", str(workspace), "--set", "infra.examples=9")
    assert "version 1 in" in infra.out
    assert "nothing new: this model was pushed before" in infra.out
    again = ("run", "digits", "--workspace", str(workspace), "--set", "rewrite.max_drop=1.9")
    done = headrace(*again)
    assert "In service  version 2" in done.out
    back = headrace("rollback", "digits", "--workspace", str(workspace), "--reason", "a trial")
    assert "In service  version 1 of digits, instead of 2" in back.out
    done = headrace(*again)
    assert "Nodes       0 executed, 11 cached" in done.out
    assert "not in service: withdrawn by a rollback (a trial)" in done.out
    assert "In service  version 1" in done.out
    headrace("rollback", "digits", "--workspace", str(workspace), "--to", "2")
    assert "In service  version 2" in headrace("show", "latest", "--workspace", str(workspace)).out


def test_pruning_says_first_what_would_go(headrace, first, workspace) -> None:
    arguments = ("models", "prune", "digits", "--workspace", str(workspace), "--keep", "1")
    assert "Would go    1; with --yes they do" in headrace(*arguments).out
    assert (workspace / "serving" / "digits" / "1").exists()
    assert "Removed     1; recorded as execution" in headrace(*arguments, "--yes").out
    assert sorted(path.name for path in (workspace / "serving/digits").glob("[0-9]*")) == ["2"]


def test_the_same_from_python(first, workspace) -> None:
    project = api.Project(workspace)
    listed = project.runs()
    whole = listed[listed.state == "complete"].iloc[-1].run
    run = project.get(whole)
    assert run.metrics["accuracy"] >= 0.97
    assert run.metrics["accuracy"] == run.summary["accuracy"]
    assert set(run.nodes.index) == set(NODES)
    assert len(run.slices) == 11
    assert {"identity", "frozen"} <= set(run.candidates.index)
    assert len(run.history) > 1
    examples = run.examples("test", 357)
    assert len(examples) == 357
    assert set(examples.columns) >= {"image", "label"}
    names = project.models()
    assert names.iloc[0].model == "digits"
    graph = project.lineage(f"digits@{names.iloc[0].version}")
    assert "Trainer" in set(graph.executions.node)
    assert set(graph.edges.execution) <= set(graph.executions.id)
    compared = project.compare(whole, listed.iloc[0].run)
    assert list(compared.columns) == ["section", "what", "before", "after"]
    with pytest.raises(NotFoundError, match="Did you mean 'Trainer'"):
        run.artifact("Trainr", "model")


def test_its_model_from_python(first, workspace) -> None:
    run = api.Project(workspace).get(re.search(r"headrace show (\S+)", first.out).group(1))  # type: ignore[union-attr]
    records = read_split(str(run.artifact("ExampleGen", "examples")), "test", 357)
    said = run.model.predict(records)
    examples = run.examples("test", 357)
    assert np.mean(said == examples.label) == pytest.approx(run.metrics["accuracy"])
    np.testing.assert_array_equal(run.model.scores(examples), run.model.scores(records))


def test_bulk_answers_as_the_model_was_evaluated(headrace, first, nodes, workspace, tmp_path) -> None:
    examples = Path(nodes["ExampleGen"].outputs["examples"][0].uri, "Split-test")
    done = headrace("bulk", "digits", str(examples), str(tmp_path / "out"), "--workspace", str(workspace))
    assert done.code == 0, done.err
    assert "Answered    357 inputs with version 2 of digits" in done.out


def test_no_secret_of_the_environment_is_written_anywhere(headrace, first, workspace) -> None:
    """Record, logs, artifacts, pushed models and a report, after all the runs above."""
    report = headrace("report", "latest", "--workspace", str(workspace))
    assert report.code == 0, report.err
    planted = [value.encode() for value in SECRETS.values()]
    files = [path for path in workspace.rglob("*") if path.is_file()]
    assert len(files) > 100
    found = [path for path in files if any(secret in path.read_bytes() for secret in planted)]
    assert found == []
    assert not any(value in first.out + first.err + report.out for value in SECRETS.values())


def test_explain_cache_says_what_has_changed(headrace, first, workspace) -> None:
    # The runs before this one may have left another evaluation of the same model as the latest.
    headrace("run", "digits", "--workspace", str(workspace))
    arguments = ("explain-cache", "digits", "--workspace", str(workspace))
    done = headrace(*arguments)
    assert done.code == 0, done.err
    assert len(re.findall(r" hit ", done.out)) == 11, done.out
    done = headrace(*arguments, "--set", "infra.examples=11")
    assert re.search(r"InfraValidator +miss +examples_count: \d+ -> 11", done.out), done.out
    assert re.search(r"Pusher +miss +after InfraValidator", done.out), done.out
    assert len(re.findall(r" hit ", done.out)) == 9, done.out

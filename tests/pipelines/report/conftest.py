"""A run with every artifact that a report shows, made small and by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from pipelines.lineage.query import Lineage, Target
from pipelines.lineage.records import ArtifactRecord, RunRecord
from pipelines.lineage.source import Edge, Execution
from pipelines.lineage.view import NodeView, RunView
from pipelines.report.page import Gathered

CLASSES = ("0", "1", "<b>x</b>")
LABELS = ["0", "1", "<b>x</b>", "1"]
SCORES = [[0.9, 0.1, 0.0], [0.1, 0.8, 0.1], [0.7, 0.2, 0.1], [0.3, 0.4, 0.3]]
ORDER = (
    "ExampleGen",
    "StatisticsGen",
    "ExampleValidator",
    "DataGate",
    "Trainer",
    "Rewriter",
    "Evaluator",
    "Pusher",
)
READS = {
    "StatisticsGen": {"examples": "ExampleGen"},
    "ExampleValidator": {"statistics": "StatisticsGen"},
    "DataGate": {"anomalies": "ExampleValidator"},
    "Trainer": {"examples": "ExampleGen"},
    "Rewriter": {"model": "Trainer", "examples": "ExampleGen"},
    "Evaluator": {"servable": "Rewriter", "examples": "ExampleGen"},
    "Pusher": {"servable": "Rewriter", "blessing": "Evaluator"},
}

MakeView = Callable[..., RunView]


@pytest.fixture
def gathered(full_view) -> Gathered:
    """Everything a page is made from."""
    return Gathered(full_view, "Because.", small_lineage())


def small_lineage() -> Lineage:
    """A file read by ExampleGen, a Trainer that was compared with a baseline, and a pushed version."""
    artifacts = [
        ArtifactRecord(1, "InputFile", "/d/<x>.csv", {"sha256": "f" * 64, "records": 4}),
        ArtifactRecord(2, "Examples", "/w/examples", {}),
        ArtifactRecord(3, "Model", "/w/baseline", {}),
        ArtifactRecord(4, "PushedModel", "/w/p", {"pushed_version": "3", "pushed_destination": "/s/m/3"}),
    ]
    executions = [
        Execution(number, node, "m-1-aaaa", "complete", 0.0, {"wall_s": 1.0})
        for number, node in ((7, "ExampleGen"), (8, "Evaluator"), (9, "Pusher"))
    ]
    edges = [
        Edge(4, 9, "pushed_model", False),
        Edge(2, 9, "model", True),
        Edge(2, 7, "examples", False),
        Edge(1, 7, "files", True),
        Edge(2, 8, "examples", True),
        Edge(3, 8, "baseline_model", True),
    ]
    return Lineage(
        Target("version", "m@3", (4,)),
        "up",
        {item.id: item for item in artifacts},
        {item.id: item for item in executions},
        edges,
        cut=False,
    )


@pytest.fixture
def full_view(tmp_path, make_example, png) -> RunView:
    """A run that went all the way."""
    records = [make_example(image=png(40 * number), label=label) for number, label in enumerate(LABELS)]
    written = {
        "ExampleGen": {
            "examples": _examples(tmp_path / "examples", records),
            "report": _report(tmp_path / "report"),
        },
        "StatisticsGen": {"statistics": _statistics(tmp_path / "statistics")},
        "ExampleValidator": {"anomalies": _anomalies(tmp_path / "anomalies")},
        "DataGate": {"report": _gate(tmp_path / "gate")},
        "Trainer": {"model": tmp_path / "model", "model_run": _history(tmp_path / "model_run")},
        "Rewriter": {
            "servable": _servable(tmp_path / "servable"),
            "report": _candidates(tmp_path / "rewrite"),
        },
        "Evaluator": {"evaluation": _evaluation(tmp_path / "evaluation"), "blessing": tmp_path / "blessing"},
        "Pusher": {"pushed_model": tmp_path / "pushed"},
    }
    return RunView(_run(), _nodes(written), [_input_file()])


def _nodes(written: dict[str, dict[str, Path]]) -> dict[str, NodeView]:
    made: dict[tuple[str, str], ArtifactRecord] = {}
    nodes = {}
    for number, name in enumerate(ORDER):
        for key, path in written[name].items():
            properties = (
                {"pushed_version": "3", "pushed_destination": "/s/m/3"} if key == "pushed_model" else {}
            )
            made[name, key] = ArtifactRecord(10 * number + len(made), "Any", str(path), properties)
        execution = Execution(
            number, name, "m-1-aaaa", "cached" if number == 1 else "complete", float(number), {"wall_s": 1.5}
        )
        inputs = {
            key: [next(artifact for (maker, _), artifact in made.items() if maker == before)]
            for key, before in READS.get(name, {}).items()
        }
        outputs = {key: [made[name, key]] for key in written[name]}
        nodes[name] = NodeView(execution, execution, inputs, outputs)
    return nodes


def _run() -> RunRecord:
    figures = {
        "size_bytes": 4000,
        "latency_ms_p50": 2.0,
        "latency_ratios": (0.8,),
        "accuracy": 0.9,
        "agreement": 1.0,
    }
    rows = [
        {
            "name": "identity",
            "qualified": True,
            "reason": "the original",
            "figures": figures,
            "drop_bound": 0.8,
        },
        {
            "name": "int8",
            "qualified": False,
            "reason": "it <i>broke</i>",
            "figures": None,
            "drop_bound": None,
        },
    ]
    details = {
        "config": json.dumps(
            {"data": {"label": "label", "image": "image"}, "evaluation": {"min_accuracy": 0.95}}
        ),
        "packages": {"keras": "3.15.1"},
        "upstream": {"Trainer": ["ExampleGen", "DataGate"], "Pusher": ["Rewriter", "Gone"]},
        "surroundings": {"user": "ada", "host": "mill", "device": "CPU, 2 cores"},
        "summary": {
            "examples": {"train": 6, "validation": 4},
            "accuracy": 0.9,
            "chosen": "identity",
            "reason": "no candidate qualified, so the original goes on",
            "candidates": rows,
            "pushed_version": "3",
        },
    }
    return RunRecord("m-1-aaaa", "m", "complete", 0.0, 60.0, details)


def _input_file() -> ArtifactRecord:
    return ArtifactRecord(
        99, "InputFile", "/d/<script>alert(1)</script>.csv", {"sha256": "f" * 64, "records": 4}
    )


def write_records(path: Path, records: list[bytes]) -> None:
    """A gzipped TFRecord file; checksums are zero, which readers behind gzip need not check."""
    import gzip

    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb") as file:
        for record in records:
            file.write(struct.pack("<QI", len(record), 0) + record + struct.pack("<I", 0))


def _examples(folder: Path, records: list[bytes]) -> Path:
    write_records(folder / "Split-validation/data_tfrecord-000000-00000.gz", records)
    return folder


def _report(folder: Path) -> Path:
    folder.mkdir()
    counts = {"train": {"0": 4, "10": 1, "9": 1}, "validation": {"0": 4}}
    (folder / "report.json").write_text(json.dumps({"counts": counts}))
    row = {"path": "/d/part-0.csv", "bytes": 9, "sha256": "f", "group": 0, "records": 4, "bad": 0}
    (folder / "files.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def _statistics(folder: Path) -> Path:
    (folder / "Split-train").mkdir(parents=True)
    parsed = statistics_pb2.DatasetFeatureStatisticsList()
    dataset = parsed.datasets.add(num_examples=10)
    number = dataset.features.add(type=statistics_pb2.FeatureNameStatistics.FLOAT)
    number.path.step.append("width")
    number.num_stats.common_stats.num_non_missing = 9
    number.num_stats.min, number.num_stats.max, number.num_stats.mean = 1.0, 3.0, 2.0
    text = dataset.features.add(type=statistics_pb2.FeatureNameStatistics.STRING, name="label")
    text.string_stats.common_stats.num_non_missing = 10
    text.string_stats.unique = 2
    text.string_stats.top_values.add(value="0", frequency=6)
    (folder / "Split-train/FeatureStats.pb").write_bytes(parsed.SerializeToString())
    return folder


def _anomalies(folder: Path) -> Path:
    (folder / "Split-test").mkdir(parents=True)
    parsed = anomalies_pb2.Anomalies()
    parsed.anomaly_info["label"].description = "Examples contain values missing from the schema: 7."
    (folder / "Split-test/SchemaDiff.pb").write_bytes(parsed.SerializeToString())
    return folder


def _gate(folder: Path) -> Path:
    folder.mkdir()
    rows = [
        {"feature": name, "kind": "drift", "measure": "Jensen-Shannon", "value": value, "limit": 0.3}
        for name, value in (("calm", 0.01), ("restless", 0.29))
    ]
    (folder / "report.json").write_text(json.dumps({"passed": True, "splits": ["train"], "shifts": rows}))
    return folder


def _history(folder: Path) -> Path:
    folder.mkdir()
    history = {"loss": [2.0, 1.0, 0.5], "val_loss": [2.1, float("nan"), 0.9], "accuracy": [0.1, 0.5, 0.9]}
    report = {
        "history": history,
        "best_epoch": 3,
        "epochs": 3,
        "parameters": 1234,
        "examples_per_second": 9.5,
    }
    (folder / "history.json").write_text(json.dumps(report))
    return folder


def _servable(folder: Path) -> Path:
    folder.mkdir()
    (folder / "servable.json").write_text(json.dumps({"class_names": CLASSES}))
    return folder


def _candidates(folder: Path) -> Path:
    folder.mkdir()
    (folder / "candidates.json").write_text(json.dumps({"split": "validation"}))
    np.save(folder / "judged.npy", np.array(SCORES, np.float32))
    return folder


def _evaluation(folder: Path) -> Path:
    folder.mkdir()
    metrics = {
        "candidate": {
            "label=10": {"accuracy": 1.0, "example_count": 1.0},
            "label=9": {"accuracy": 0.8, "example_count": 5.0},
            "overall": {"accuracy": 0.9, "example_count": 6.0},
        },
        "baseline": {"overall": {"accuracy": 0.85}},
    }
    failures = ["accuracy on all examples is 0.9000; expected at least 0.95"]
    content = {"blessed": False, "failures": failures, "metrics": metrics}
    (folder / "summary.json").write_text(json.dumps(content))
    pairs = [("9", "9", 4), ("9", "10", 1), ("10", "10", 1), ("<b>x</b>", "9", 1)]
    lines = [{"label": label, "predicted": name, "examples": count} for label, name, count in pairs]
    (folder / "confusion.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder

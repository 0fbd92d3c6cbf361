"""What came of a run, read from ML Metadata and the artifacts it names.

summary = summarize(store, run_id)
summary.candidates, summary.accuracy, summary.pushed_version
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from components.serving_pusher import root as serving_root
from pipelines.evaluation import ACCURACY, BASELINE, CANDIDATE, MEAN_ABSOLUTE_ERROR
from pipelines.lineage import record
from pipelines.lineage.records import NodeRecord
from pipelines.lineage.store import Store

OVERALL = "overall"
RESOLVERS = ("Baseline", "EarlierStatistics", "WarmStart")
"""Nodes that look something up in every run; they are neither executed nor cached."""


@dataclass(frozen=True)
class Summary:
    """The outcome of a run; fields are empty where their node did not run.

    Attributes:
        examples: split -> number of examples.
        classes: class -> number of examples in all splits; empty of a regression.
        bad_records: records that could not be used and were written aside.
        accuracy: of the servable on the test split, in [0, 1].
        baseline_accuracy: of the model it was compared with, or None.
        error: of a regression: mean absolute error on the test split, in the label's unit.
        baseline_error: the same of the model it was compared with, or None.
        worst_class: name and accuracy of the class that does worst.
        failures: thresholds that were not met, as sentences.
        tuning: the search for hyperparameters, as `record.tuning` gives it.
        candidates: `candidates.json`'s rows.
        chosen: the technique that went on.
        reason: why.
        blessed: by the Evaluator; None where it did not run.
        infra_blessed: by the InfraValidator; None where it did not run.
        infra_message: why it did not bless, or empty.
        infra_figures: what a model server took: `server`, `cold_load_s`, `p50_ms`,
            `p95_ms`, `p99_ms`, `requests`, `memory_mb`.
        pushed_version: of this model, or empty.
        pushed_to: the version's folder, or empty.
        pushed_now: whether this very run pushed it.
        pushed_state: empty where the pushed version is in service, else what became
            of it since.
        in_service: the version that servers serve now, or empty.
        refusal: why it was not pushed.
        executed: nodes that ran.
        cached: nodes whose outputs were taken from the cache.
    """

    examples: Mapping[str, int] = field(default_factory=dict)
    classes: Mapping[str, int] = field(default_factory=dict)
    bad_records: int = 0
    accuracy: float | None = None
    baseline_accuracy: float | None = None
    error: float | None = None
    baseline_error: float | None = None
    worst_class: tuple[str, float] | None = None
    failures: Sequence[str] = ()
    tuning: Mapping[str, Any] = field(default_factory=dict)
    candidates: Sequence[Mapping[str, Any]] = ()
    chosen: str = ""
    reason: str = ""
    blessed: bool | None = None
    infra_blessed: bool | None = None
    infra_message: str = ""
    infra_figures: Mapping[str, Any] = field(default_factory=dict)
    pushed_version: str = ""
    pushed_to: str = ""
    pushed_now: bool = False
    pushed_state: str = ""
    in_service: str = ""
    refusal: str = ""
    executed: Sequence[str] = ()
    cached: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def summarize(store: Store, run_id: str) -> Summary:
    """Reads the outcome of a run."""
    nodes = {node.node: node for node in store.nodes(run_id)}
    return Summary(
        **_counts(nodes.get("ExampleGen")),
        tuning=record.tuning(nodes.get("Tuner")),
        **_rewrite(nodes.get("Rewriter")),
        **_evaluation(nodes.get("Evaluator")),
        **_infra(nodes.get("InfraValidator")),
        **_push(nodes.get("Pusher")),
        executed=tuple(
            name for name, node in nodes.items() if node.state == "complete" and name not in RESOLVERS
        ),
        cached=tuple(name for name, node in nodes.items() if node.state == "cached"),
    )


def _output(node: NodeRecord | None, key: str) -> Any:
    artifacts = node.outputs.get(key, ()) if node else ()
    return artifacts[0] if artifacts else None


def _json_of(artifact: Any, name: str) -> Any:
    path = Path(artifact.uri, name) if artifact else None
    return json.loads(path.read_text()) if path and path.exists() else None


def _counts(node: NodeRecord | None) -> dict[str, Any]:
    artifact = _output(node, "examples")
    if not artifact:
        return {}
    return {
        "examples": json.loads(str(artifact.properties["examples_per_split"])),
        "classes": _classes(node),
        "bad_records": int(artifact.properties.get("bad_records", 0)),
    }


def _classes(node: NodeRecord | None) -> dict[str, int]:
    report = _json_of(_output(node, "report"), "report.json") or {}
    total: Counter[str] = Counter()
    for counts in report.get("counts", {}).values():
        total.update(counts)
    return dict(sorted(total.items()))


def _rewrite(node: NodeRecord | None) -> dict[str, Any]:
    report = _json_of(_output(node, "report"), "candidates.json")
    if not report:
        return {}
    # Reports of versions before slices and states were judged have neither.
    rows = [{"state": "judged", "slices": [], **row} for row in report["candidates"]]
    return {"candidates": rows, "chosen": report["chosen"], "reason": report["reason"]}


def _evaluation(node: NodeRecord | None) -> dict[str, Any]:
    found = _json_of(_output(node, "evaluation"), "summary.json")
    if not found:
        return {}
    slices = found["metrics"][CANDIDATE]
    baseline = found["metrics"].get(BASELINE, {}).get(OVERALL, {})
    classes = {
        name: values[ACCURACY] for name, values in slices.items() if name != OVERALL and ACCURACY in values
    }
    worst = min(classes.items(), key=lambda item: item[1]) if classes else None
    return {
        "accuracy": slices[OVERALL].get(ACCURACY),
        "baseline_accuracy": baseline.get(ACCURACY),
        "error": slices[OVERALL].get(MEAN_ABSOLUTE_ERROR),
        "baseline_error": baseline.get(MEAN_ABSOLUTE_ERROR),
        "worst_class": (worst[0].partition("=")[2], worst[1]) if worst else None,
        "failures": found["failures"],
        "blessed": found["blessed"],
    }


def _infra(node: NodeRecord | None) -> dict[str, Any]:
    blessing = _output(node, "blessing")
    if not blessing:
        return {}
    return {
        "infra_blessed": blessing.properties.get("blessed") == 1,
        "infra_message": str(blessing.properties.get("message", "")),
        "infra_figures": json.loads(str(blessing.properties.get("figures", "{}"))),
    }


def _push(node: NodeRecord | None) -> dict[str, Any]:
    pushed = _output(node, "pushed_model")
    if not pushed or not node:
        return {}
    root = Path(str(node.properties["serving_root"]))
    current = serving_root.in_service(root)
    now = {"in_service": "" if current is None else str(current)}
    already = pushed.properties.get("in_service_as")
    if already:
        return {**now, **_pushed_before(root, str(already))}
    if pushed.properties.get("pushed") != 1:
        return {**now, "refusal": str(pushed.properties.get("reason", ""))}
    version = str(pushed.properties["pushed_version"])
    return {
        **now,
        "pushed_version": version,
        "pushed_to": str(pushed.properties["pushed_destination"]),
        "pushed_now": node.state == "complete",
        "pushed_state": _state_since(root, int(version), current),
    }


def _pushed_before(root: Path, version: str) -> dict[str, Any]:
    return {
        "pushed_version": version,
        "pushed_to": str(root / version),
        "pushed_now": False,
        "pushed_state": _state_since(root, int(version), serving_root.in_service(root)),
    }


def _state_since(root: Path, version: int, current: int | None) -> str:
    """What became of a pushed version; empty where it is in service."""
    if version == current:
        return ""
    withdrawal = serving_root.withdrawals(root).get(version)
    if withdrawal is not None:
        reason = f" ({withdrawal.reason})" if withdrawal.reason else ""
        return f"withdrawn by a {withdrawal.cause}{reason}"
    if serving_root.folder_of(root, version) is None:
        return "removed since"
    return "superseded by a newer version"

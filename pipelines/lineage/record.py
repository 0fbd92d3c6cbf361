"""What is recorded of a node beside what TFX records: where it ran, what it did, what it read.

surroundings()                      # once per run; forked nodes inherit the answer
facts(node)                         # counts, throughput, metrics, the choice, the version
input_files(node)                   # files an ExampleGen read, as artifacts to be linked
"""

from __future__ import annotations

import functools
import getpass
import hashlib
import json
import os
import platform
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines import fingerprint
from pipelines.evaluation import ACCURACY, BASELINE, CANDIDATE, MEAN_ABSOLUTE_ERROR
from pipelines.lineage.records import ArtifactRecord, NodeRecord

Value = str | int | float
Facts = dict[str, Value]

MAX_FILES = 1000
"""More input files than this are linked as one artifact per folder: a million would drown the graph."""

FILES = "files.jsonl"
"""In ExampleGen's report: one input file a line."""

_OVERALL = "overall"
BEST_HYPERPARAMETERS = "best_hyperparameters.txt"
"""TFX's name of the Tuner's result."""
_GIT_TIMEOUT_S = 10.0


@functools.cache
def surroundings() -> Facts:
    """Who runs this, where, on what, and from which code.

    Keys: `environment_digest`, `user`, `host`, `device`, and in a git checkout
    `git_commit` and `git_dirty` (1 where a file of ours differs from it).
    """
    return {
        "environment_digest": fingerprint.environment_digest(),
        "user": _user(),
        "host": socket.gethostname(),
        "device": device(),
        **_git(fingerprint.PROJECT),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # containers run under ids that no user has
        return f"uid {os.getuid()}"


def _git(folder: Path) -> Facts:
    commit = _git_output(folder, "rev-parse", "HEAD")
    if not commit:
        return {}
    changed = _git_output(folder, "status", "--porcelain", "--", *fingerprint.OWN_PACKAGES)
    return {"git_commit": commit, "git_dirty": int(bool(changed))}


def _git_output(folder: Path, *arguments: str) -> str:
    """Standard output of a git command; empty without git, a checkout, or an answer in time."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def device() -> str:
    """The GPUs' names, or the processor's with its number of cores. Asks no driver."""
    gpus = [_field(path, "Model") for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))]
    if gpus:
        return ", ".join(gpus)
    name = _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def _field(path: Path, name: str) -> str:
    """The first value of `name: value` in a file of /proc."""
    if not path.exists():
        return ""
    for line in path.read_text(errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def facts(node: NodeRecord, wall_s: float) -> Facts:
    """What a node did, as properties of its execution; empty where it was cached.

    Args:
        node: as it ended.
        wall_s: its wall time, for throughput.
    """
    if node.state != "complete":
        return {}
    reader = _READERS.get(node.node)
    found = {**_counts(node), **(reader(node) if reader else {})}
    examples = found.get("examples")
    if examples and wall_s > 0 and "examples_per_s" not in found:
        found["examples_per_s"] = round(float(examples) / wall_s, 1)
    return found


def written(node: NodeRecord) -> Facts:
    """`output_bytes`: what a node wrote to its artifacts; empty where it was cached."""
    if node.state != "complete":
        return {}
    folders = {Path(artifact.uri) for group in node.outputs.values() for artifact in group}
    # What a resolver found lies where another node wrote it.
    own = [folder for folder in folders if folder.name == str(node.execution_id)]
    return {"output_bytes": sum(_size(folder) for folder in own)}


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _counts(node: NodeRecord) -> Facts:
    """How many examples went through: of the split it reads, of those it wrote, else of all."""
    sizes: dict[str, int] = {}
    for artifact in _artifacts(node, "examples"):
        sizes.update(json.loads(str(artifact.properties.get("examples_per_split", "{}"))))
    written = [name for artifact in _artifacts(node, "transformed_examples") for name in _splits(artifact)]
    split = node.properties.get("split")
    wanted = [str(split)] if split else written
    count = sum(size for name, size in sizes.items() if not wanted or name in wanted)
    count = min(count, int(node.properties.get("examples_count", count)))
    return {"examples": count} if count else {}


def _artifacts(node: NodeRecord, key: str) -> Sequence[ArtifactRecord]:
    return [*node.inputs.get(key, ()), *node.outputs.get(key, ())]


def _splits(artifact: ArtifactRecord) -> list[str]:
    return list(json.loads(str(artifact.properties.get("split_names") or "[]")))


def _example_gen(node: NodeRecord) -> Facts:
    files = read_files(node)
    if not files:
        return {}
    return {"input_files": len(files), "input_bytes": sum(max(file["bytes"], 0) for file in files)}


def _trainer(node: NodeRecord) -> Facts:
    """Seed, and the figures of the epoch whose weights were kept."""
    config = json.loads(str(node.properties.get("custom_config") or "{}"))
    found: Facts = {}
    if "seed" in config.get("train", {}):
        found["seed"] = int(config["train"]["seed"])
    report = _json(node, "model_run", "history.json") or {}
    found.update({**_system(report), **_origins(node)})
    for key in ("epochs", "steps", "best_epoch", "parameters"):
        if key in report:
            found[key] = int(report[key])
    examples = report.get("choices", {}).get("input", {}).get("examples")
    if examples:
        found["examples"] = int(examples)
    weights = _weights_digest(node)
    if weights:
        found["weights_sha256"] = weights
    found.update(_choices(report))
    if "examples_per_second" in report:
        found["examples_per_s"] = float(report["examples_per_second"])
    kept = int(report.get("best_epoch", 0)) - 1
    final = {name: values[kept] for name, values in report.get("history", {}).items() if kept < len(values)}
    return {**found, "metrics": json.dumps(final, sort_keys=True)} if final else found


def _choices(report: Mapping[str, Any]) -> dict[str, str]:
    """What the training chose by device or timing, as settings that say the same."""
    chosen = {"precision": report.get("system", {}).get("precision")}
    xla = report.get("choices", {}).get("xla", {}).get("xla")
    if xla is not None:
        chosen["xla"] = "on" if xla else "off"
    return {key: str(value) for key, value in chosen.items() if value}


def _weights_digest(node: NodeRecord) -> str:
    """Of the trained variables as they are stored; empty where that is no SavedModel.

    Two trainings with bit-identical weights have the same, since a file of
    variables holds nothing else.
    """
    artifacts = node.outputs.get("model", ())
    files = sorted(Path(artifacts[0].uri).rglob("variables/variables.data-*")) if artifacts else []
    total = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest() if files else ""


_SYSTEM = (
    "device", "gpus", "cpu_cores", "intra_op_threads", "inter_op_threads", "onednn", "precision",
    "precision_reason", "strategy", "strategy_reason", "replicas", "workers", "deterministic",
)  # fmt: skip
_XLA = ("reason", "plain_step_ms", "xla_step_ms", "compile_s")


def _system(report: Mapping[str, Any]) -> Facts:
    """What a training ran on, and what was chosen by measuring."""
    found: Facts = {}
    for key in ("input_wait_share", "skipped_steps", "resumed_from_step"):
        if report.get(key) is not None:
            found[key] = report[key]
    system, xla = report.get("system", {}), report.get("choices", {}).get("xla", {})
    for key in (*_SYSTEM, "peak_memory_mb", "device_peak_memory_mb"):
        if system.get(key) is not None:
            # The node's own figure counts all that its process did before.
            name = "training_peak_memory_mb" if key == "peak_memory_mb" else key
            found[name] = _plain(system[key])
    found.update({f"xla_{key.removeprefix('xla_')}": xla[key] for key in _XLA if xla.get(key) is not None})
    return found


def _plain(value: Any) -> str | int | float:
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, (str, int, float)) else json.dumps(value)


def _origins(node: NodeRecord) -> Facts:
    """The values that a search found, and the model that the training started from."""
    found: Facts = {}
    for artifact in node.inputs.get("hyperparameters", ()):
        path = Path(artifact.uri, BEST_HYPERPARAMETERS)
        if path.exists():
            values = json.loads(path.read_text())["values"]
            found["tuned"] = json.dumps(_own_values(values), sort_keys=True)
    for artifact in node.inputs.get("base_model", ()):
        found["warm_start_model_id"] = artifact.id
    return found


def _own_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tuned values without what an oracle notes for itself."""
    return {name: value for name, value in values.items() if not name.startswith("tuner/")}


def tuning(node: NodeRecord | None) -> dict[str, Any]:
    """A search: `objective`, `oracle`, `score`, `values` of the best trial, and all `trials`, best first."""
    found = _json(node, "tuner_results", "tuner_results.json") if node else None
    if not node or not found:
        return {}
    tune = json.loads(str(node.properties["custom_config"]))["tune"]
    trials = []
    for row in found:
        values = {name: value for name, value in row.items() if name not in ("trial_id", "score")}
        trials.append({"score": row["score"], "values": _own_values(values)})
    return {"objective": tune["objective"], "oracle": tune["oracle"], **trials[0], "trials": trials}


def _tuner(node: NodeRecord) -> Facts:
    found = tuning(node)
    if not found:
        return {}
    return {
        "objective": found["objective"],
        "score": float(found["score"]),
        "trials": len(found["trials"]),
        "tuned": json.dumps(found["values"], sort_keys=True),
    }


def _rewriter(node: NodeRecord) -> Facts:
    report = _json(node, "report", "candidates.json")
    if not report:
        return {}
    rows = [
        {
            "name": row["name"],
            "qualified": row["qualified"],
            "reason": row["reason"],
            **{key: (row["figures"] or {}).get(key) for key in ("size_bytes", "latency_ms_p50", "accuracy")},
        }
        for row in report["candidates"]
    ]
    return {"chosen": report["chosen"], "reason": report["reason"], "candidates": json.dumps(rows)}


def _evaluator(node: NodeRecord) -> Facts:
    summary = _json(node, "evaluation", "summary.json")
    if not summary:
        return {}
    found: Facts = {"blessed": int(summary["blessed"])}
    for metric in (ACCURACY, MEAN_ABSOLUTE_ERROR):
        for key, model in ((metric, CANDIDATE), (f"baseline_{metric}", BASELINE)):
            value = summary["metrics"].get(model, {}).get(_OVERALL, {}).get(metric)
            if value is not None:
                found[key] = float(value)
    return found


def _pusher(node: NodeRecord) -> Facts:
    pushed = _artifacts(node, "pushed_model")
    if not pushed:
        return {}
    keys = ("pushed", "pushed_version", "pushed_destination", "reason")
    return {key: pushed[0].properties[key] for key in keys if key in pushed[0].properties}


_READERS: Mapping[str, Callable[[NodeRecord], Facts]] = {
    "ExampleGen": _example_gen,
    "Trainer": _trainer,
    "Tuner": _tuner,
    "Rewriter": _rewriter,
    "Evaluator": _evaluator,
    "Pusher": _pusher,
}


def _json(node: NodeRecord, key: str, name: str) -> Any:
    artifacts = node.outputs.get(key, ())
    path = Path(artifacts[0].uri, name) if artifacts else None
    return json.loads(path.read_text()) if path is not None and path.exists() else None


@dataclass(frozen=True)
class InputFile:
    """A file, or a folder of very many, that an ExampleGen read.

    Attributes:
        path: absolute.
        sha256: of the file's content; for a folder, of its files' names and digests.
        bytes: in all.
        files: 1, or how many files of the folder were read.
        records: good records it gave.
    """

    path: str
    sha256: str
    bytes: int
    files: int
    records: int


def read_files(node: NodeRecord) -> list[dict[str, Any]]:
    """What `files.jsonl` of an ExampleGen's report says; empty where it is not there."""
    reports = node.outputs.get("report", ())
    return read_listed(Path(reports[0].uri)) if reports else []


def read_listed(report: Path) -> list[dict[str, Any]]:
    """The input files in an ExampleGen's report folder; empty where that is gone."""
    path = report / FILES
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def input_files(node: NodeRecord) -> list[InputFile]:
    """The files that an ExampleGen read, to be linked with its execution."""
    if node.node != "ExampleGen" or node.state != "complete":
        return []
    rows = read_files(node)
    if len(rows) <= MAX_FILES:
        return [_as_input(row["path"], [row], row["sha256"]) for row in rows]
    folders: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        folders.setdefault(row["path"].rpartition("/")[0], []).append(row)
    return [_as_input(folder, inside, _digest(inside)) for folder, inside in folders.items()]


def _as_input(path: str, rows: Sequence[Mapping[str, Any]], sha256: str) -> InputFile:
    size = sum(max(row["bytes"], 0) for row in rows)
    return InputFile(path, sha256, size, len(rows), sum(row["records"] for row in rows))


def _digest(rows: Iterable[Mapping[str, Any]]) -> str:
    lines = (f"{Path(row['path']).name}\0{row['sha256']}\n" for row in rows)
    return hashlib.sha256("".join(lines).encode()).hexdigest()

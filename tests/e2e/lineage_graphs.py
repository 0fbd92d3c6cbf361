"""The lineage of a run as plain data, in names that do not depend on which runner it was.

    differences(local_graph(workspace, run_id), spec_graph(root, outcome_json))

Artifacts are named by who made them (`Trainer.model`), places by what they are
relative to. Resolvers, importers and what only one orchestrator knows are left
out; whoever reads what they found is linked with who made it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines.lineage.store import Store
from pipelines.runners.kfp_facts import FACTS

FOUND_ELSEWHERE = ("Baseline", "EarlierStatistics", "ResolveData", "BaselineImport-importer")
COSTS = (
    "wall_s", "cpu_s", "peak_memory_mb", "examples_per_s", "training_peak_memory_mb",
    "xla_plain_step_ms", "xla_step_ms", "xla_compile_s",
)  # fmt: skip
"""What differs from run to run."""

OF_ONE_RUNNER = {
    # TFX's launcher, and Kubeflow's, write names of their own.
    "name", "state", "display_name", "store_session_info", "tfx_version", "is_external",
    # Parameters of the compiled pipeline.
    "image", "workspace", "epochs",
    # The choice that is taken from the record is a setting of the second run.
    "rewrite", "candidates", "reason", "figures",
    # Of files on this machine's disk, by which its cache tells that they are whole; a cluster's
    # outputs are taken to the object store by Kubeflow's launcher, after our code has ended.
    "payload_sha256", "output_bytes",
    # TFX's StatisticsGen notes it under Kubeflow alone.
    "sample_rate_by_split",
    FACTS, *COSTS,
}  # fmt: skip


@dataclass
class Node:
    """What a node read, made and was told; values are JSON."""

    inputs: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


Graph = dict[str, Node]


def differences(first: Graph, second: Graph) -> list[str]:
    """Every place at which two graphs are not the same."""
    return list(_differ({name: vars(node) for name, node in first.items()},
                        {name: vars(node) for name, node in second.items()}, ""))  # fmt: skip


def _differ(first: Any, second: Any, place: str) -> Iterator[str]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted(first.keys() | second.keys()):
            yield from _differ(first.get(key), second.get(key), f"{place}/{key}")
    elif isinstance(first, float) and isinstance(second, float):
        # ML Metadata keeps six decimals of a number, Kubeflow's facts are JSON.
        if abs(first - second) > 1e-6:
            yield f"{place}: {first!r} != {second!r}"
    elif first != second:
        yield f"{place}: {first!r} != {second!r}"


def _kept(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in properties.items()
        if key not in OF_ONE_RUNNER and not key.startswith("__")
    }


class _Names:
    """Ids and places, as names that both runners share."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.of_id: dict[int, str] = {}
        self.of_uri: dict[str, str] = {}

    def add(self, number: int, uri: str, name: str) -> None:
        self.of_id[number] = self.of_uri[uri] = name

    def settle(self, key: str, value: Any) -> Any:
        if key.endswith("_id") and isinstance(value, (int, float)):
            return self.of_id.get(int(value), "none")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str):
            for uri, name in self.of_uri.items():
                value = value.replace(uri, name)
            value = value.replace(self.root, "WORKSPACE")
            return re.sub(r"\b[a-z]+-\d{8}-\d{6}-[0-9a-f]{4}\b", "RUN", value)
        return value


def local_graph(workspace: Path, run_id: str) -> Graph:
    """Of a run of TFX's launcher."""
    with Store(workspace / "metadata.db") as store:
        records = [node for node in store.nodes(run_id) if node.node not in FOUND_ELSEWHERE]
    names = _Names(workspace)
    for record in records:
        for key, artifacts in record.outputs.items():
            for artifact in artifacts:
                names.add(artifact.id, artifact.uri, f"{record.node}.{key}")
    graph: Graph = {}
    for record in records:
        node = graph[record.node] = Node()
        for key, artifacts in record.inputs.items():
            if key == "files":
                node.files = {
                    _short(item.uri, workspace): str(item.properties["sha256"]) for item in artifacts
                }
            else:
                node.inputs[key] = [names.of_id[item.id] for item in artifacts]
        for key, (artifact,) in record.outputs.items():
            kept = {name: names.settle(name, value) for name, value in _kept(artifact.properties).items()}
            node.outputs[key] = {"type": artifact.type.rpartition(".")[2], **kept}
        properties = _kept(record.properties).items()
        node.properties = {name: names.settle(name, value) for name, value in properties}
    return graph


def _short(path: str, workspace: Path) -> str:
    return str(Path(path).relative_to(workspace)) if path.startswith(str(workspace)) else path


def spec_graph(root: Path, run_id: str, workspace: Path) -> Graph:
    """Of a run of the compiled pipeline, from what Kubeflow's backend would have written."""
    sqlite = pb.SqliteMetadataSourceConfig(filename_uri=str(root / "metadata.db"))
    store = metadata_store.MetadataStore(pb.ConnectionConfig(sqlite=sqlite))
    context = store.get_context_by_type_and_name("system.PipelineRun", run_id)
    executions = [
        item
        for item in store.get_executions_by_context(context.id)
        if item.type == "system.ContainerExecution"
    ]
    events = store.get_events_by_execution_ids([item.id for item in executions])
    artifacts = {item.id: item for item in store.get_artifacts_by_id({event.artifact_id for event in events})}
    names = _Names(workspace)
    task = {item.id: item.custom_properties["task_name"].string_value for item in executions}
    for event in events:
        if event.type == pb.Event.OUTPUT and task[event.execution_id] not in FOUND_ELSEWHERE:
            key = event.path.steps[0].key
            names.add(
                event.artifact_id, artifacts[event.artifact_id].uri, f"{task[event.execution_id]}.{key}"
            )
    graph = {name: Node() for name in task.values() if name not in FOUND_ELSEWHERE}
    for event in events:
        name, artifact = task[event.execution_id], artifacts[event.artifact_id]
        if name not in graph:
            continue
        key = event.path.steps[0].key
        if event.type == pb.Event.INPUT:
            # An imported artifact is a copy with the URI of what it is a copy of.
            if not artifact.uri.endswith("/headrace-nothing"):
                graph[name].inputs.setdefault(key, []).append(names.of_uri[artifact.uri])
        else:
            _add_output(graph[name], key, artifact, names)
    for item in executions:
        if task[item.id] in graph:
            _add_properties(graph[task[item.id]], item, names)
    report = next(uri for uri, name in names.of_uri.items() if name == "ExampleGen.report")
    files = root / "store" / report.replace("://", "/") / "files.jsonl"
    for line in files.read_text().splitlines():
        row = json.loads(line)
        graph["ExampleGen"].files[_short(row["path"], workspace)] = row["sha256"]
    return graph


def _values(properties: Any) -> dict[str, Any]:
    found = {}
    for key, value in properties.items():
        kind = value.WhichOneof("value")
        if kind and kind != "struct_value":
            found[key] = getattr(value, kind)
    return found


def _add_output(node: Node, key: str, artifact: Any, names: _Names) -> None:
    values = _values(artifact.custom_properties)
    kept = {name: names.settle(name, value) for name, value in _kept(values).items()}
    node.outputs[key] = {"type": artifact.type.rpartition(".")[2], **kept}
    facts = json.loads(values[FACTS])
    node.properties.update({name: names.settle(name, value) for name, value in _kept(facts).items()})


def _add_properties(node: Node, execution: Any, names: _Names) -> None:
    given = dict(execution.custom_properties["inputs"].struct_value)
    for name, value in _kept(given).items():
        value = value.replace("$HEADRACE_WORKSPACE", names.root) if isinstance(value, str) else value
        node.properties[name] = names.settle(name, value)

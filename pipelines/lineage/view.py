"""A run with what stands behind it: cached nodes together with the executions that did their work.

seen = view(source, run)
seen.fact("Evaluator", "accuracy"), seen.input_files, seen.config["train"]["seed"]
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pipelines.lineage.records import ArtifactRecord, RunRecord
from pipelines.lineage.source import Edge, Execution, Source

Artifacts = Mapping[str, Sequence[ArtifactRecord]]


@dataclass(frozen=True)
class NodeView:
    """One node of a run.

    Attributes:
        execution: of this run.
        maker: the execution that made the outputs: another run's where this one was cached.
        inputs: input key -> artifacts.
        outputs: output key -> artifacts.
    """

    execution: Execution
    maker: Execution
    inputs: Artifacts
    outputs: Artifacts

    @property
    def node(self) -> str:
        return self.execution.node

    def output(self, key: str) -> ArtifactRecord | None:
        """The first artifact of an output."""
        return next(iter(self.outputs.get(key, ())), None)


@dataclass(frozen=True)
class RunView:
    """A run, its nodes in the order in which they began, and the files it read."""

    run: RunRecord
    nodes: Mapping[str, NodeView]
    input_files: Sequence[ArtifactRecord]

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The whole configuration, defaults included."""
        return dict(json.loads(self.run.details.get("config") or "{}"))

    @property
    def packages(self) -> Mapping[str, str]:
        """Name -> version."""
        return dict(self.run.details.get("packages") or {})

    @property
    def summary(self) -> Mapping[str, Any]:
        """`pipelines.summary.Summary` as it was recorded; empty while the run goes on."""
        return dict(self.run.details.get("summary") or {})

    @property
    def surroundings(self) -> Mapping[str, Any]:
        """Who ran it, where and on what; see `record.surroundings`."""
        return dict(self.run.details.get("surroundings") or {})

    def fact(self, node: str, key: str) -> Any:
        """A recorded property of the execution that did a node's work; None where there is none."""
        found = self.nodes.get(node)
        return found.maker.properties.get(key) if found else None

    def output(self, node: str, key: str) -> ArtifactRecord | None:
        """The first artifact of a node's output; None where there is none."""
        found = self.nodes.get(node)
        return found.output(key) if found else None


def view(source: Source, run: RunRecord) -> RunView:
    """Reads a run and what stands behind it."""
    executions = source.executions(source.run_executions(run.run_id))
    read, written = source.inputs(executions), source.outputs(executions)
    made = {edge.artifact: edge.execution for edge in source.producers({e.artifact for e in written})}
    makers = source.executions(set(made.values()) - set(executions))
    behind = {**makers, **executions}
    files = [edge for edge in source.inputs(behind) if edge.key == "files"]
    artifacts = source.artifacts({edge.artifact for edge in [*read, *written, *files]})
    nodes = {}
    for number, execution in executions.items():
        inputs = _by_key([edge for edge in read if edge.execution == number], artifacts)
        outputs = _by_key([edge for edge in written if edge.execution == number], artifacts)
        first = next((made.get(artifact.id) for group in outputs.values() for artifact in group), None)
        maker = behind.get(first, execution) if execution.state == "cached" and first else execution
        nodes[execution.node] = NodeView(execution, maker, inputs, outputs)
    wanted = {node.maker.id for node in nodes.values()}
    return RunView(run, nodes, [artifacts[edge.artifact] for edge in files if edge.execution in wanted])


def _by_key(edges: Sequence[Edge], artifacts: Mapping[int, ArtifactRecord]) -> Artifacts:
    found: dict[str, list[ArtifactRecord]] = {}
    for edge in edges:
        found.setdefault(edge.key, []).append(artifacts[edge.artifact])
    return found

"""A lineage as text: a tree to read, JSON to process, dot and Mermaid to draw.

print(FORMATS["tree"](lineage))
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.lineage.query import COMPARED_ONLY, Lineage
from pipelines.lineage.records import ArtifactRecord
from pipelines.lineage.source import Edge, Execution, model_of
from pipelines.lineage.store import INPUT_FILE

_Printed = tuple[str, list[Callable[[], Any]]]
"""A line, and what gives the same of each line below it."""


def tree(lineage: Lineage) -> str:
    """An indented tree; what has been shown already is named and not repeated."""
    return "\n".join(_Tree(lineage).lines())


class _Tree:
    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        self._up = lineage.direction == "up"
        self._shown: set[int] = set()
        self._beyond: dict[int, list[Edge]] = {}
        self._far: dict[int, list[Edge]] = {}
        for edge in lineage.edges:
            if edge.reads == self._up:
                self._far.setdefault(edge.execution, []).append(edge)
            else:
                self._beyond.setdefault(edge.artifact, []).append(edge)

    def lines(self) -> Iterator[str]:
        target = self._lineage.target
        yield f"{target.title}: {'what made it' if self._up else 'what came of it'}"
        if not self._up:
            yield from _outcomes(self._lineage)
        children = [(f"{describe(self._lineage.artifacts[number])}", number) for number in target.artifacts]
        waiting: list[Callable[[], Any]] = [
            partial(self._artifact, text, artifact, "", last=number == len(children) - 1)
            for number, (text, artifact) in enumerate(children)
        ]
        # Not by recursion: a model that begins with the last one's weights has a chain of hundreds behind it.
        waiting.reverse()
        while waiting:
            line, below = waiting.pop()()
            yield line
            waiting.extend(reversed(below))
        if not self._lineage.executions:
            yield "  nothing is recorded in this direction"
        if self._lineage.cut:
            yield "… and more; raise --depth"

    def _artifact(self, text: str, artifact: int, indent: str, *, last: bool) -> _Printed:
        edges, inner = self._beyond.get(artifact, []), indent + _stem(last)
        below: list[Callable[[], Any]] = [
            partial(self._execution, edge, inner, last=number == len(edges) - 1)
            for number, edge in enumerate(edges)
        ]
        return f"{indent}{_branch(last)}{text}", below

    def _execution(self, edge: Edge, indent: str, *, last: bool) -> _Printed:
        execution = self._lineage.executions[edge.execution]
        compared = f" as {edge.key}" if edge.reads and edge.key in COMPARED_ONLY else ""
        if edge.execution in self._shown:
            return f"{indent}{_branch(last)}{execution.node} {edge.execution}{compared} (above)", []
        self._shown.add(edge.execution)
        edges, inner = self._far.get(edge.execution, []), indent + _stem(last)
        below: list[Callable[[], Any]] = []
        for number, far in enumerate(edges):
            text = f"{far.key}: {describe(self._lineage.artifacts[far.artifact])}"
            below.append(partial(self._artifact, text, far.artifact, inner, last=number == len(edges) - 1))
        return f"{indent}{_branch(last)}{describe_execution(execution)}{compared}", below


def _outcomes(lineage: Lineage) -> Iterator[str]:
    """What most people look for downwards, before the tree that leads there."""
    found: dict[str, list[str]] = {"Pushed": [], "Trained": [], "Evaluated": []}
    makers = {edge.artifact: lineage.executions[edge.execution] for edge in lineage.edges if not edge.reads}
    for number, maker in makers.items():
        artifact = lineage.artifacts[number]
        if artifact.properties.get("pushed_destination"):
            found["Pushed"].append(describe(artifact).split()[1])
        elif artifact.type == "Model" and maker.node == "Trainer":
            found["Trained"].append(f"{maker.run_id} [artifact {number}]")
        elif artifact.type == "ModelEvaluation":
            found["Evaluated"].append(f"{maker.run_id} [artifact {number}]")
    for word, names in found.items():
        if names:
            yield f"  {word + ':':<10} {', '.join(names)}"


def _branch(last: bool) -> str:
    return "└─ " if last else "├─ "


def _stem(last: bool) -> str:
    return "   " if last else "│  "


def describe(artifact: ArtifactRecord) -> str:
    """An artifact in a few words."""
    properties = artifact.properties
    if artifact.type == INPUT_FILE:
        files = int(properties.get("files", 1))
        many = f", {files:,} files" if files > 1 else ""
        return (
            f"{artifact.uri} (sha256 {str(properties['sha256'])[:12]}{many}, {properties['records']} records)"
        )
    said = ""
    if properties.get("pushed_destination"):
        said = f" {model_of(str(properties['pushed_destination']))}@{properties['pushed_version']}"
    elif artifact.type.endswith("Blessing"):
        said = " blessed" if properties.get("blessed") == 1 else " not blessed"
    elif "technique" in properties:
        said = f" {properties['technique']}"
    elif "reason" in properties:
        said = f" ({properties['reason']})"
    return f"{artifact.type}{said} [artifact {artifact.id}]"


def describe_execution(execution: Execution) -> str:
    """An execution in a few words."""
    state = "" if execution.state == "complete" else f" {execution.state}"
    wall = execution.properties.get("wall_s")
    seconds = f", {float(wall):.1f} s" if wall is not None else ""
    run = f"run {execution.run_id}, " if execution.run_id else ""
    return f"{execution.node}{state}: {run}{clock(execution.started)}{seconds}"


def clock(seconds: float) -> str:
    """A time of day, local."""
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}"


def as_json(lineage: Lineage) -> str:
    """All artifacts, executions and edges, with their properties."""
    content: dict[str, Any] = {
        "target": asdict(lineage.target),
        "direction": lineage.direction,
        "cut": lineage.cut,
        "artifacts": [asdict(artifact) for artifact in lineage.artifacts.values()],
        "executions": [asdict(execution) for execution in lineage.executions.values()],
        "edges": [edge._asdict() for edge in lineage.edges],
    }
    return json.dumps(content, indent=1)


def dot(lineage: Lineage) -> str:
    """A graph for Graphviz: `headrace lineage digits@1 --output dot | dot -Tsvg`."""
    lines = ["digraph lineage {", "  rankdir=LR;", "  node [fontname=sans];"]
    for execution in lineage.executions.values():
        label = json.dumps(f"{execution.node}\n{execution.run_id}", ensure_ascii=False)
        lines.append(f"  e{execution.id} [shape=box, label={label}];")
    for artifact in lineage.artifacts.values():
        label = json.dumps(_short(artifact), ensure_ascii=False)
        lines.append(f"  a{artifact.id} [shape=ellipse, label={label}];")
    for first, second, key in _arrows(lineage):
        lines.append(f"  {first} -> {second} [label={json.dumps(key)}];")
    return "\n".join([*lines, "}"])


def mermaid(lineage: Lineage) -> str:
    """A flowchart that Markdown renderers draw."""
    lines = ["flowchart LR"]
    for execution in lineage.executions.values():
        lines.append(f'  e{execution.id}["{_entities(execution.node)}<br/>{_entities(execution.run_id)}"]')
    for artifact in lineage.artifacts.values():
        lines.append(f'  a{artifact.id}(["{_entities(_short(artifact))}"])')
    for first, second, key in _arrows(lineage):
        lines.append(f"  {first} -->|{_entities(key)}| {second}")
    return "\n".join(lines)


def _short(artifact: ArtifactRecord) -> str:
    if artifact.type == INPUT_FILE:
        return Path(artifact.uri).name
    return describe(artifact).partition(" [")[0]


def _entities(text: str) -> str:
    """Mermaid's escape for what would end a label."""
    return "".join(f"#{ord(char)};" if char in '"#|<>[](){};' else char for char in text)


def _arrows(lineage: Lineage) -> Iterator[tuple[str, str, str]]:
    """From what came first to what came of it, each once."""
    for edge in dict.fromkeys(lineage.edges):
        artifact, execution = f"a{edge.artifact}", f"e{edge.execution}"
        yield (artifact, execution, edge.key) if edge.reads else (execution, artifact, edge.key)


FORMATS: Mapping[str, Callable[[Lineage], str]] = {
    "tree": tree,
    "json": as_json,
    "dot": dot,
    "mermaid": mermaid,
}

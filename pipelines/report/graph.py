"""A run's chain and a lineage as pictures.

chain(view)         # each box leads to the node's details
lineage(found)      # each box leads to the details of an execution, a file or a version
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pipelines.lineage.query import COMPARED_ONLY, Lineage
from pipelines.lineage.records import ArtifactRecord
from pipelines.lineage.render import describe
from pipelines.lineage.source import Execution
from pipelines.lineage.store import INPUT_FILE
from pipelines.lineage.view import NodeView, RunView
from pipelines.report.drawing import Arrow, Box, draw
from pipelines.report.markup import Markup

STATES = {
    "complete": ("✓", "executed"),
    "cached": ("↺", "cached"),
    "failed": ("✕", "failed"),
    "canceled": ("⊘", "canceled"),
    "running": ("▷", "running"),
}

MOST = 200
"""More boxes than this are no picture any more."""


def edges(nodes: Mapping[str, NodeView]) -> list[tuple[str, str]]:
    """Which node's output another read, each pair once, in the order in which nodes began."""
    makers: dict[int, str] = {}
    found: dict[tuple[str, str], None] = {}
    for name, node in nodes.items():
        for group in [*node.inputs.values(), *node.outputs.values()]:
            for artifact in group:
                # A resolver "writes" what another made: it reads it.
                maker = makers.get(artifact.id)
                if maker is not None and maker != name:
                    found[maker, name] = None
        for group in node.outputs.values():
            for artifact in group:
                makers.setdefault(artifact.id, name)
    return list(found)


def waits(view: RunView) -> list[tuple[str, str]]:
    """Which node waited for another, by the pipeline, also where it read nothing of it: gates."""
    before = view.run.details.get("upstream") or {}
    return [(name, node) for node in view.nodes for name in before.get(node, ()) if name in view.nodes]


def chain(view: RunView) -> Markup:
    """The picture of a run."""
    data = edges(view.nodes)
    arrows = [Arrow(*pair) for pair in data]
    arrows += [Arrow(*pair, dashed=True) for pair in waits(view) if pair not in data]
    boxes = [_node(node) for node in view.nodes.values()]
    return draw(_in_order(boxes, arrows), arrows, name="chain", label="Nodes, with state and time")


def _node(node: NodeView) -> Box:
    return Box(
        node.node, node.node, note(node.execution), f"#node-{node.node}", node.execution.state,
        f"{node.node}: {note(node.execution).partition(' ')[2]}",
    )  # fmt: skip


def note(execution: Execution) -> str:
    """State and time in a few signs."""
    sign, word = STATES.get(execution.state, ("·", execution.state))
    wall = execution.properties.get("wall_s")
    return f"{sign} {word}" + (f" · {float(wall):.1f} s" if wall is not None else "")


def _in_order(boxes: Sequence[Box], arrows: Sequence[Arrow]) -> list[Box]:
    """Each box after those it has arrows from; the given order otherwise. A circle is cut anywhere."""
    waiting, done, found = list(boxes), set[str](), list[Box]()
    known = {box.key for box in boxes}
    before: dict[str, set[str]] = {}
    for arrow in arrows:
        before.setdefault(arrow.after, set()).update({arrow.before} & known)
    while waiting:
        ready = next((box for box in waiting if before.get(box.key, set()) <= done), waiting[0])
        waiting.remove(ready)
        done.add(ready.key)
        found.append(ready)
    return found


def size(found: Lineage) -> int:
    """How many boxes a lineage has as a picture."""
    return len(found.executions) + len(shown(found))


def lineage(found: Lineage) -> Markup:
    """Executions with the artifacts at their ends: input files, what was asked about, what came out last.

    Artifacts between two executions are the arrows; what something was only
    compared with is dashed.
    """
    ends = shown(found)
    arrows = list(_arrows(found, ends))
    boxes = [_execution(execution) for execution in found.executions.values()]
    boxes += [_artifact(found.artifacts[number]) for number in ends]
    ordered = _in_order(boxes, arrows)
    return draw(ordered, arrows, name="lineage", label="Lineage, from origins to results")


def shown(found: Lineage) -> list[int]:
    """Artifacts that are read or written at one side only, and those asked about."""
    read = {edge.artifact for edge in found.edges if edge.reads}
    written = {edge.artifact for edge in found.edges if not edge.reads}
    compared = {edge.artifact for edge in found.edges if edge.reads and edge.key in COMPARED_ONLY}
    ends = set(found.target.artifacts) | (compared - written)
    ends |= {number for number in read - written if _matters(found.artifacts[number])}
    ends |= {number for number in written - read if _matters(found.artifacts[number])}
    return sorted(ends & found.artifacts.keys())


def _matters(artifact: ArtifactRecord) -> bool:
    return artifact.type == INPUT_FILE or bool(artifact.properties.get("pushed_destination"))


def _arrows(found: Lineage, ends: Sequence[int]) -> Iterator[Arrow]:
    makers = {edge.artifact: edge.execution for edge in found.edges if not edge.reads}
    for edge in found.edges:
        dashed = edge.reads and edge.key in COMPARED_ONLY
        if edge.artifact in ends:
            artifact, execution = f"a{edge.artifact}", f"e{edge.execution}"
            yield Arrow(artifact, execution, dashed) if edge.reads else Arrow(execution, artifact)
        elif edge.reads and makers.get(edge.artifact, edge.execution) != edge.execution:
            yield Arrow(f"e{makers[edge.artifact]}", f"e{edge.execution}", dashed)


def _execution(item: Execution) -> Box:
    title = f"{item.node}{f' in run {item.run_id}' if item.run_id else ''}: {note(item).partition(' ')[2]}"
    return Box(f"e{item.id}", item.node, note(item), f"#lineage-e{item.id}", item.state, title)


def _artifact(item: ArtifactRecord) -> Box:
    said = describe(item).partition(" [")[0]
    href = f"#lineage-a{item.id}"
    if item.type == INPUT_FILE:
        records = f"{item.properties.get('records', 0)} records"
        return Box(f"a{item.id}", Path(item.uri).name, records, href, "file", said)
    kind, _, name = said.partition(" ")
    if name.startswith("("):  # a reason; the whole of it stands in the details
        name = ""
    return Box(f"a{item.id}", name or kind, kind if name else f"artifact {item.id}", href, "artifact", said)

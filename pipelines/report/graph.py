"""The chain of a run as a picture: a box per node, in rows from first to last.

chain(view)         # SVG; each box is a link to the node's details
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipelines.lineage.view import NodeView, RunView
from pipelines.report.markup import Markup, tag

_BOX_W, _BOX_H = 148, 46
_GAP_X, _GAP_Y = 20, 32
STATES = {
    "complete": ("✓", "executed"),
    "cached": ("↺", "cached"),
    "failed": ("✕", "failed"),
    "canceled": ("⊘", "canceled"),
    "running": ("▷", "running"),
}


@dataclass(frozen=True)
class _Box:
    x: float
    y: float

    @property
    def middle(self) -> float:
        return self.x + _BOX_W / 2


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


def without_implied(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Leaves out arrows between nodes that a longer way connects too, which would cross other boxes."""
    after: dict[str, set[str]] = {}
    for first, second in pairs:
        after.setdefault(first, set()).add(second)

    def reaches(start: str, goal: str) -> bool:
        waiting, seen = set(after.get(start, ())), set[str]()
        while waiting:
            name = waiting.pop()
            if name == goal:
                return True
            seen.add(name)
            waiting |= after.get(name, set()) - seen
        return False

    return [
        (first, second)
        for first, second in pairs
        if not any(reaches(other, second) for other in after[first] - {second})
    ]


def rows(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Nodes by the longest way that leads to them.

    Args:
        names: in an order in which each comes after those it reads from.
        pairs: what `edges` gives.
    """
    level = dict.fromkeys(names, 0)
    for name in names:
        level[name] = max((level[before] + 1 for before, after in pairs if after == name), default=0)
    found: list[list[str]] = [[] for _ in range(max(level.values(), default=0) + 1)]
    for name in names:
        found[level[name]].append(name)
    return found


def chain(view: RunView) -> Markup:
    """The picture."""
    pairs = edges(view.nodes)
    grid = rows(list(view.nodes), pairs)
    columns = max(len(row) for row in grid)
    width = columns * (_BOX_W + _GAP_X) + _GAP_X
    boxes = {
        name: _Box(
            _GAP_X + (columns - len(row)) * (_BOX_W + _GAP_X) / 2 + column * (_BOX_W + _GAP_X),
            4 + number * (_BOX_H + _GAP_Y),
        )
        for number, row in enumerate(grid)
        for column, name in enumerate(row)
    }
    height = len(grid) * (_BOX_H + _GAP_Y) - _GAP_Y + 8
    return tag(
        "svg",
        tag("defs", _arrow_head()),
        *(_arrow(boxes[before], boxes[after]) for before, after in without_implied(pairs)),
        *(_node(view.nodes[name], box) for name, box in boxes.items()),
        viewBox=f"0 0 {width} {height}",
        class_="chain",
        role="group",
        aria_label="The chain: each node with its state and time",
        style=f"max-width:{width}px",
    )


def _arrow_head() -> Markup:
    path = tag("path", d="M0,0 L8,4 L0,8 z")
    return tag("marker", path, id="head", markerWidth=8, markerHeight=8, refX=7, refY=4, orient="auto")


def _arrow(before: _Box, after: _Box) -> Markup:
    start, end = before.y + _BOX_H, after.y - 1
    bend = _GAP_Y * 0.6
    way = (
        f"M{before.middle:.0f},{start:.0f} C{before.middle:.0f},{start + bend:.0f} "
        f"{after.middle:.0f},{end - bend:.0f} {after.middle:.0f},{end:.0f}"
    )
    return tag("path", d=way, class_="arrow", marker_end="url(#head)")


def _node(node: NodeView, box: _Box) -> Markup:
    sign, word = STATES.get(node.execution.state, ("·", node.execution.state))
    wall = node.execution.properties.get("wall_s")
    time = f" · {float(wall):.1f} s" if wall is not None else ""
    return tag(
        "a",
        tag("rect", x=box.x, y=box.y, width=_BOX_W, height=_BOX_H, rx=7),
        tag("text", node.node, x=box.middle, y=box.y + 19, text_anchor="middle", class_="name"),
        tag("text", f"{sign} {word}{time}", x=box.middle, y=box.y + 36, text_anchor="middle"),
        href=f"#node-{node.node}",
        class_=f"node {node.execution.state}",
        aria_label=f"{node.node}: {word}{time}",
    )

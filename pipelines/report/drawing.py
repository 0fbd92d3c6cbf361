"""Boxes and arrows from top to bottom, as inline SVG; each box is a link to what stands behind it.

draw([Box("a", "Trainer", "12 s", "#a")], [Arrow("a", "b")], name="chain", label="The chain")

Layers by the longest way, as in K. Sugiyama, S. Tagawa, M. Toda, "Methods for
visual understanding of hierarchical system structures", 1981: an arrow over
several rows gets a place in each, so that it crosses no box, and rows are put
in order by the middle of what they are joined to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipelines.report.markup import Markup, tag

BOX_W, BOX_H = 148, 46
_GAP_X, _GAP_Y = 20, 34
_PASSING_W = 12
_SWEEPS = 6
_MAX_TEXT = 20
_FITTING = 15
"""Longer names are drawn narrower, to stay in their box."""


@dataclass(frozen=True)
class Box:
    """A box: `kind` becomes its class, `title` what it is read out as."""

    key: str
    name: str
    note: str
    href: str
    kind: str = ""
    title: str = ""


@dataclass(frozen=True)
class Arrow:
    """From one box to another; a dashed one carries no data."""

    before: str
    after: str
    dashed: bool = False


Pairs = Sequence[tuple[str, str]]


def without_implied(pairs: Pairs) -> list[tuple[str, str]]:
    """Leaves out arrows between boxes that a longer way connects too."""
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


def rows(names: Sequence[str], pairs: Pairs) -> list[list[str]]:
    """Boxes by the longest way that leads to them.

    Args:
        names: in an order in which each comes after those it has arrows from.
        pairs: the arrows.
    """
    level = dict.fromkeys(names, 0)
    for name in names:
        level[name] = max((level[before] + 1 for before, after in pairs if after == name), default=0)
    found: list[list[str]] = [[] for _ in range(max(level.values(), default=0) + 1)]
    for name in names:
        found[level[name]].append(name)
    return found


@dataclass
class _Layers:
    """Rows with places for passing arrows; those are named by arrow and row."""

    rows: list[list[str]]
    ways: dict[tuple[str, str], list[str]]

    @classmethod
    def of(cls, names: Sequence[str], pairs: Pairs) -> _Layers:
        grid = rows(names, pairs)
        level = {name: number for number, row in enumerate(grid) for name in row}
        ways = {}
        for before, after in pairs:
            between = range(level[before] + 1, level[after])
            passing = [f"\0{before}\0{after}\0{number}" for number in between]
            for number, place in zip(between, passing, strict=True):
                grid[number].append(place)
            ways[before, after] = [before, *passing, after]
        layers = cls(grid, ways)
        layers._order()
        return layers

    def _order(self) -> None:
        """Sweeps down and up, each row by the middle of its neighbours in the row before."""
        above: dict[str, list[str]] = {}
        below: dict[str, list[str]] = {}
        for way in self.ways.values():
            for upper, lower in pairwise(way):
                below.setdefault(upper, []).append(lower)
                above.setdefault(lower, []).append(upper)
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            order = self.rows if down else self.rows[::-1]
            for fixed, free in pairwise(order):
                places = _centres(fixed)
                _sort(free, places, above if down else below)


def _sort(row: list[str], places: Mapping[str, float], neighbours: Mapping[str, Sequence[str]]) -> None:
    own = _centres(row)

    def middle(name: str) -> float:
        joined = [places[other] for other in neighbours.get(name, ()) if other in places]
        return sum(joined) / len(joined) if joined else own[name]

    row.sort(key=middle)


def _width(name: str) -> int:
    return _PASSING_W if name.startswith("\0") else BOX_W


def _centres(row: Sequence[str]) -> dict[str, float]:
    """Middles of what is in a row, counted from the row's own middle."""
    at = -sum(_width(name) + _GAP_X for name in row) / 2
    found = {}
    for name in row:
        found[name] = at + (_width(name) + _GAP_X) / 2
        at += _width(name) + _GAP_X
    return found


def draw(boxes: Sequence[Box], arrows: Iterable[Arrow], *, name: str, label: str) -> Markup:
    """The picture.

    Args:
        boxes: in an order in which each comes after those it has arrows from.
        arrows: between keys of boxes; what longer ways say too is left out.
        name: unlike that of any other picture on the page.
        label: read out before the boxes.
    """
    known = {box.key for box in boxes}
    kinds = {(arrow.before, arrow.after): arrow.dashed for arrow in arrows}
    pairs = without_implied([pair for pair in kinds if set(pair) <= known])
    layers = _Layers.of([box.key for box in boxes], pairs)
    width = max(sum(_width(place) + _GAP_X for place in row) for row in layers.rows) + _GAP_X
    height = len(layers.rows) * (BOX_H + _GAP_Y) - _GAP_Y + 8
    places = {
        place: (width / 2 + x, 4 + number * (BOX_H + _GAP_Y))
        for number, row in enumerate(layers.rows)
        for place, x in _centres(row).items()
    }
    head = f"head-{name}"
    return tag(
        "svg",
        tag("defs", _arrow_head(head)),
        *(_arrow([places[place] for place in layers.ways[pair]], head, dashed=kinds[pair]) for pair in pairs),
        *(_box(box, *places[box.key]) for box in boxes),
        viewBox=f"0 0 {width:.0f} {height}",
        class_="graph",
        role="group",
        aria_label=label,
        style=f"width:{width:.0f}px",
    )


def _arrow_head(name: str) -> Markup:
    path = tag("path", d="M0,0 L8,4 L0,8 z")
    return tag("marker", path, id=name, markerWidth=8, markerHeight=8, refX=7, refY=4, orient="auto")


def _arrow(points: Sequence[tuple[float, float]], head: str, *, dashed: bool) -> Markup:
    """A curve from row to row, straight where it passes one."""
    bend = _GAP_Y * 0.6
    x, y = points[0]
    way = f"M{x:.0f},{y + BOX_H:.0f}"
    for (from_x, from_y), (to_x, to_y) in pairwise(points):
        start, end = from_y + BOX_H, to_y - (1 if (to_x, to_y) == points[-1] else 0)
        if (from_x, from_y) != points[0]:
            way += f" L{from_x:.0f},{start:.0f}"
        way += f" C{from_x:.0f},{start + bend:.0f} {to_x:.0f},{end - bend:.0f} {to_x:.0f},{end:.0f}"
    return tag("path", d=way, class_="arrow dashed" if dashed else "arrow", marker_end=f"url(#{head})")


def _box(box: Box, x: float, y: float) -> Markup:
    return tag(
        "a",
        tag("title", box.title or box.name),
        tag("rect", x=x - BOX_W / 2, y=y, width=BOX_W, height=BOX_H, rx=7),
        _text(box.name, x, y + 19, class_="name"),
        _text(box.note, x, y + 36),
        href=box.href,
        class_=f"node {box.kind}".strip(),
        aria_label=box.title or f"{box.name}: {box.note}",
    )


def _text(text: str, x: float, y: float, class_: str | None = None) -> Markup:
    shown = _cut(text)
    width = BOX_W - 12 if len(shown) > _FITTING and class_ else None
    squeezed = "spacingAndGlyphs" if width else None
    return tag(
        "text", shown, x=x, y=y, text_anchor="middle", class_=class_, textLength=width, lengthAdjust=squeezed
    )


def _cut(text: str) -> str:
    """Names of files say most at their end."""
    return text if len(text) <= _MAX_TEXT else f"…{text[1 - _MAX_TEXT :]}"

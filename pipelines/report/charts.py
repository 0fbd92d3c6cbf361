"""Small charts as inline SVG, in the page's colours, with a text alternative.

lines({"loss": [...], "val_loss": [...]}, title="Loss", mark=12)
histogram({"train": [Bucket(0, 1, 12), ...]}, title="Share of values")
scatter([Point("frozen", 162, 2.4, "97.8 %", chosen=True)], x="size, kB", y="latency", title="...")
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipelines.report.markup import Markup, join, tag

WIDTH, HEIGHT = 460, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 34, 40
_LABEL_GAP = 16
"""Pixels between the base lines of two labels."""


@dataclass(frozen=True)
class Point:
    """A point of a scatter plot: a hollow one is out of the race, the chosen one has a ring."""

    name: str
    x: float
    y: float
    note: str = ""
    chosen: bool = False
    hollow: bool = False


@dataclass(frozen=True)
class Bucket:
    """A bar of a histogram: how many values lie in [low, high)."""

    low: float
    high: float
    count: float


@dataclass(frozen=True)
class _Axis:
    """Maps values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round values that cover a range, in steps of 1, 2, 2.5 or 5 times a power of ten."""
    if not high > low:
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def lines(
    series: Mapping[str, Sequence[float]], *, title: str, mark: int | None = None, axis: str = "epoch"
) -> Markup:
    """A line per series over epochs, counted from 1.

    Args:
        series: name -> one value per epoch; what is not finite is left out.
        title: above the chart.
        mark: the epoch whose weights were kept.
        axis: what is counted.
    """
    finite = [value for values in series.values() for value in values if math.isfinite(value)]
    if not finite:
        return tag("p", f"{title}: no finite values", class_="note")
    count = max(len(values) for values in series.values())
    marks = ticks(min(finite), max(finite))
    x = _Axis(1, max(count, 2), _LEFT, WIDTH - _RIGHT)
    y = _Axis(marks[0], marks[-1], HEIGHT - _BOTTOM, _TOP)
    epochs = sorted({round(value) for value in ticks(1, max(count, 2)) if 1 <= value <= max(count, 2)} | {1})
    drawn = [_line(number, name, values, x, y) for number, (name, values) in enumerate(series.items())]
    kept = _kept(mark, x) if mark else None
    return _figure(title, _axes(x, y, epochs, marks, axis, ""), kept, *drawn, _legend(list(series)))


def _line(number: int, name: str, values: Sequence[float], x: _Axis, y: _Axis) -> Markup:
    points = [
        (x(epoch), y(value), epoch, value) for epoch, value in enumerate(values, 1) if math.isfinite(value)
    ]
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py, _, _ in points)
    dots = [
        tag("circle", tag("title", f"{name}, epoch {epoch}: {value:.4f}"), cx=px, cy=py, r=5, class_="hit")
        for px, py, epoch, value in points
    ]
    return tag("g", tag("polyline", points=path), *dots, class_=f"series s{number}")


_BINS = 10


def histogram(series: Mapping[str, Sequence[Bucket]], *, title: str) -> Markup:
    """Shares of values as steps, one line per series, over bins that all share.

    Args:
        series: name -> buckets; what lies in a bucket is spread evenly over it.
        title: above the chart.
    """
    finite = {name: [item for item in buckets if _drawable(item)] for name, buckets in series.items()}
    ends = [end for buckets in finite.values() for item in buckets for end in (item.low, item.high)]
    if not ends:
        return tag("p", f"{title}: no finite values", class_="note")
    across = ticks(min(ends), max(ends), about=4)
    low, high = (min(ends), max(ends)) if max(ends) > min(ends) else (across[0], across[-1])
    shares = {name: _shares(buckets, low, high) for name, buckets in finite.items()}
    up = ticks(0, max(max(values) for values in shares.values()))
    x = _Axis(across[0], across[-1], _LEFT, WIDTH - _RIGHT)
    y = _Axis(up[0], up[-1], HEIGHT - _BOTTOM, _TOP)
    drawn = [
        _steps(number, name, values, (low, high), x, y)
        for number, (name, values) in enumerate(shares.items())
    ]
    return _figure(title, _axes(x, y, across, up, "value", ""), *drawn, _legend(list(shares)))


def _drawable(item: Bucket) -> bool:
    return item.count > 0 and math.isfinite(item.low) and math.isfinite(item.high)


def _shares(buckets: Sequence[Bucket], low: float, high: float) -> list[float]:
    """Share of all in each of `_BINS` bins."""
    total = sum(item.count for item in buckets) or 1.0
    width = (high - low) / _BINS
    found = [0.0] * _BINS
    for item in buckets:
        first = min(max(int((item.low - low) / width), 0), _BINS - 1)
        last = min(max(math.ceil((item.high - low) / width), first + 1), _BINS)
        for number in range(first, last):
            begin, end = max(item.low, low + number * width), min(item.high, low + (number + 1) * width)
            part = (end - begin) / (item.high - item.low) if item.high > item.low else 1.0
            found[number] += max(part, 0.0) * item.count / total
    return found


def _steps(
    number: int, name: str, shares: Sequence[float], ends: tuple[float, float], x: _Axis, y: _Axis
) -> Markup:
    width = (ends[1] - ends[0]) / len(shares)
    points = []
    for place, share in enumerate(shares):
        for edge in (place, place + 1):
            points.append(f"{x(ends[0] + edge * width):.1f},{y(share):.1f}")
    return tag("g", tag("title", name), tag("polyline", points=" ".join(points)), class_=f"series s{number}")


def _kept(epoch: int, x: _Axis) -> Markup:
    at = x(epoch)
    return tag(
        "g",
        tag("line", x1=at, x2=at, y1=_TOP, y2=HEIGHT - _BOTTOM),
        tag("text", "kept", x=at - 4, y=(_TOP + HEIGHT - _BOTTOM) / 2, text_anchor="end"),
        class_="mark",
    )


def _legend(names: Sequence[str]) -> Markup:
    items, at = [], float(_LEFT)
    for number, name in enumerate(names):
        items.append(tag("line", x1=at, x2=at + 18, y1=20, y2=20, class_=f"s{number}"))
        items.append(tag("text", name, x=at + 23, y=24))
        at += 40 + 7 * len(name)
    return tag("g", *items, class_="legend")


def scatter(points: Sequence[Point], *, x: str, y: str, title: str) -> Markup:
    """Points with their names beside them; both axes begin at 0, so that distances are ratios."""
    across = ticks(0, max(point.x for point in points))
    up = ticks(0, max(point.y for point in points))
    to_x = _Axis(0, across[-1], _LEFT, WIDTH - _RIGHT)
    to_y = _Axis(0, up[-1], HEIGHT - _BOTTOM, _TOP)
    labels = _apart([to_y(point.y) for point in points])
    drawn = [
        _point(point, to_x(point.x), to_y(point.y), at) for point, at in zip(points, labels, strict=True)
    ]
    return _figure(title, _axes(to_x, to_y, across, up, x, y), *drawn)


def _apart(heights: Sequence[float]) -> list[float]:
    """Heights for labels, moved down where two would overlap, and up again from below the axis."""
    found = list(heights)
    order = sorted(range(len(found)), key=lambda number: found[number])
    for above, below in pairwise(order):
        found[below] = max(found[below], found[above] + _LABEL_GAP)
    floor = float(HEIGHT - _BOTTOM - 4)
    for number in reversed(order):
        found[number] = min(found[number], floor)
        floor = found[number] - _LABEL_GAP
    return found


def _point(point: Point, x: float, y: float, label_y: float) -> Markup:
    text = f"{point.name} {point.note}".strip()
    left = x > WIDTH * 0.6
    ring = tag("circle", cx=x, cy=y, r=10, class_="ring") if point.chosen else None
    dot = tag("circle", tag("title", text), cx=x, cy=y, r=5, class_="hollow" if point.hollow else "dot")
    anchor = "end" if left else "start"
    label = tag("text", text, x=x - 14 if left else x + 14, y=label_y + 4, text_anchor=anchor)
    return tag("g", ring, dot, label, class_="point chosen" if point.chosen else "point")


def _axes(
    x: _Axis, y: _Axis, across: Sequence[float], up: Sequence[float], x_name: str, y_name: str
) -> Markup:
    grid = [tag("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y(value), y2=y(value), class_="grid") for value in up]
    left = [tag("text", f"{value:g}", x=_LEFT - 8, y=y(value) + 4, text_anchor="end") for value in up]
    below = [
        # A long number at the right edge would be cut.
        tag(
            "text",
            f"{value:g}",
            x=x(value),
            y=HEIGHT - _BOTTOM + 17,
            text_anchor="end" if value == across[-1] and len(f"{value:g}") > 3 else "middle",
        )
        for value in across
    ]
    names = [
        tag("text", x_name, x=WIDTH - _RIGHT, y=HEIGHT - 6, text_anchor="end", class_="axis"),
        tag("text", y_name, x=4, y=16, class_="axis"),
    ]
    return tag("g", *grid, *left, *below, *names, class_="axes")


def _figure(title: str, *content: Markup | None) -> Markup:
    picture = tag("svg", *content, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=title)
    return tag("figure", tag("figcaption", title), picture)


def bar(share: float, limit: float | None = None, baseline: float | None = None) -> Markup:
    """A bar for a share in [0, 1], with a tick at a limit, and a dot where the baseline is."""
    width, height = 120, 12
    tick = tag("line", x1=limit * width, x2=limit * width, y1=0, y2=height, class_="limit") if limit else None
    before = (
        tag("circle", cx=max(4.0, min(baseline * width, width - 4.0)), cy=height / 2, r=3.5, class_="before")
        if baseline is not None
        else None
    )
    return tag(
        "svg",
        join([tag("rect", width=width, height=height, class_="track")]),
        tag("rect", width=max(0.0, min(share, 1.0)) * width, height=height, class_="fill"),
        tick,
        before,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        class_="bar",
        aria_hidden="true",
    )

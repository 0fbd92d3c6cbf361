"""What the measurements share: interleaved rounds, figures with goals, a table and JSON.

values = interleaved(5, {"ours": measure_ours, "other": measure_other})
report("serving", [Figure.of("grpc_concurrent_vs_direct", values["ours"], values["other"], "1/s", ">= 0.8")])
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Self, TypeVar

from rich import box
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"

Measure = Callable[[], float]

_Value = TypeVar("_Value")


def interleaved(rounds: int, measures: Mapping[str, Callable[[], _Value]]) -> dict[str, list[_Value]]:
    """Takes each measure once a round, so that a slow minute meets all of them.

    The order turns from round to round: the first would else always be the
    one that finds the caches cold.

    Returns:
        Name -> one value per round, in the order of the rounds.
    """
    names = list(measures)
    values: dict[str, list[_Value]] = {name: [] for name in names}
    for number in range(rounds):
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            values[name].append(measures[name]())
    return values


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Attributes:
        ours: median of our rounds.
        other: median of what a user would use instead, measured in the same rounds.
        unit: of both.
        ratio: median of the rounds' ratios, ours to other.
        goal: `>= 0.8` or `<= 2`, for the ratio; empty where none is set.
        reached: whether it is; true where none is set.
    """

    name: str
    ours: float
    other: float
    unit: str
    ratio: float
    goal: str
    reached: bool

    @classmethod
    def of(cls, name: str, ours: Sequence[float], other: Sequence[float], unit: str, goal: str = "") -> Self:
        """The figure of two lists of values, one of each a round."""
        ratio = median(mine / theirs for mine, theirs in zip(ours, other, strict=True))
        return cls(name, median(ours), median(other), unit, ratio, goal, _holds(ratio, goal))


def _holds(ratio: float, goal: str) -> bool:
    if not goal:
        return True
    sign, limit = goal.split()
    return {">=": ratio >= float(limit), "<=": ratio <= float(limit)}[sign]


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_average_1m": os.getloadavg()[0],
    }


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table on standard output; all columns but the first to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(width=140).print(table)


def report(name: str, figures: Sequence[Figure], facts: Mapping[str, object] | None = None) -> None:
    """Prints the figures and writes them, with other facts, to `bench/results/<name>.json`."""
    columns = ("figure", "ours", "other", "unit", "ratio", "goal", "reached")
    print_table(
        name,
        columns,
        [
            (item.name, f"{item.ours:.3g}", f"{item.other:.3g}", item.unit, f"{item.ratio:.2f}", item.goal,
             "yes" if item.reached else "no")
            for item in figures
        ],
    )  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    content = {"machine": machine(), **(facts or {}), "figures": [asdict(item) for item in figures]}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1))

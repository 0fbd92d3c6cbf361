"""What all benchmarks share: interleaved rounds, a table, a JSON file.

times = interleaved({"ours": run_ours, "other": run_other}, rounds=7)
report("training", [figure("train_image_vs_keras_fit", times["ours"], times["other"], ...)])
"""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"

Measure = Callable[[], float]


@dataclass(frozen=True)
class Figure:
    """One comparison; `ratio` is the median of the rounds' ratios of ours to other.

    Attributes:
        goal: an expression over the ratio, such as `>= 1.5`; empty where none is set.
        reached: whether the goal is; true where none is set.
    """

    name: str
    ours: float
    other: float
    unit: str
    ratio: float
    goal: str
    reached: bool


def interleaved(measures: Mapping[str, Measure], rounds: int) -> dict[str, list[float]]:
    """Calls every measure once a round, so that a busy machine slows all alike."""
    values: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            values[name].append(measure())
    return values


def figure(name: str, ours: Sequence[float], other: Sequence[float], *, unit: str, goal: str = "") -> Figure:
    """Compares two measures, round by round."""
    ratio = statistics.median(a / b for a, b in zip(ours, other, strict=True))
    return Figure(
        name=name,
        ours=round(statistics.median(ours), 3),
        other=round(statistics.median(other), 3),
        unit=unit,
        ratio=round(ratio, 3),
        goal=goal,
        reached=_reached(ratio, goal),
    )


def _reached(ratio: float, goal: str) -> bool:
    if not goal:
        return True
    sign, _, bound = goal.partition(" ")
    return ratio >= float(bound) if sign == ">=" else ratio <= float(bound)


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def report(name: str, figures: Sequence[Figure], facts: Mapping[str, object]) -> None:
    """Prints the table and writes `bench/results/<name>.json`."""
    table = Table(title=name)
    for column in ("figure", "ours", "other", "unit", "ratio", "goal", "reached"):
        table.add_column(column)
    for each in figures:
        table.add_row(*(str(value) for value in asdict(each).values()))
    Console(width=140).print(table)
    RESULTS.mkdir(exist_ok=True)
    content = {"machine": dict(facts), "figures": [asdict(each) for each in figures]}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1))

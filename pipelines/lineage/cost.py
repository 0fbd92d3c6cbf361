"""What nodes cost, over runs.

for row in costs(source, source.find_runs("", "", 100), by="node"): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pipelines.lineage.records import RunRecord
from pipelines.lineage.source import Execution, Source

By = Literal["node", "experiment", "day"]
_BATCH = 200
"""Runs whose executions are read at once."""


@dataclass
class Cost:
    """A group's sums.

    Attributes:
        name: node, experiment, or local day.
        executed: executions that did work, failed ones included.
        cached: those that took it from the cache.
        wall_s: added up; nodes that ran side by side count each.
        cpu_s: of all processes of the nodes.
        peak_memory_mb: of the largest process.
        bytes: written to artifacts.
        unknown: executions that recorded no cost: their process was killed.
    """

    name: str
    executed: int = 0
    cached: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory_mb: float = 0.0
    bytes: int = 0
    unknown: int = 0

    def add(self, execution: Execution) -> None:
        """Adds one execution."""
        properties = execution.properties
        if execution.state == "cached":
            self.cached += 1
        else:
            self.executed += 1
        if "wall_s" not in properties:
            self.unknown += 1
        self.wall_s += float(properties.get("wall_s", 0.0))
        self.cpu_s += float(properties.get("cpu_s", 0.0))
        self.peak_memory_mb = max(self.peak_memory_mb, float(properties.get("peak_memory_mb", 0.0)))
        self.bytes += int(properties.get("output_bytes", 0))


def costs(source: Source, runs: Sequence[RunRecord], by: By) -> list[Cost]:
    """Groups by CPU seconds, most first; days by date, newest first."""
    key = _KEYS[by]
    found: dict[str, Cost] = {}
    for run, execution in _executions(source, runs):
        name = key(run, execution)
        found.setdefault(name, Cost(name)).add(execution)
    if by == "day":
        return sorted(found.values(), key=lambda cost: cost.name, reverse=True)
    return sorted(found.values(), key=lambda cost: -cost.cpu_s)


def _executions(source: Source, runs: Sequence[RunRecord]) -> Iterator[tuple[RunRecord, Execution]]:
    for start in range(0, len(runs), _BATCH):
        numbers = {
            number: run
            for run in runs[start : start + _BATCH]
            for number in source.run_executions(run.run_id)
        }
        for number, execution in source.executions(numbers).items():
            # A partial run takes executions of another over; they count once.
            if execution.run_id == numbers[number].run_id:
                yield numbers[number], execution


_KEYS: Mapping[By, Callable[[RunRecord, Execution], str]] = {
    "node": lambda run, execution: execution.node,
    "experiment": lambda run, execution: run.experiment,
    "day": lambda run, execution: f"{datetime.fromtimestamp(execution.started):%Y-%m-%d}",
}

"""The section on data: sizes, anomalies, classes, statistics, drift, input files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pipelines.lineage.view import RunView
from pipelines.report import data, judged
from pipelines.report.markup import Child, Markup, fold, table, tag
from pipelines.report.sections import MANY_CLASSES, section

_MAX_SHIFTS = 30
_MAX_OPEN_ROWS = 24


def data_section(view: RunView) -> Markup:
    """Examples per split and class, input files, statistics, anomalies."""
    examples = view.summary.get("examples") or {}
    if not examples:
        return Markup("")
    sizes = ", ".join(f"{count:,} {name}" for name, count in examples.items())
    found = data.anomalies(view)
    checked = view.output("ExampleValidator", "anomalies") is not None
    good = tag("p", "ExampleValidator found no anomalies.") if checked else None
    anomalies = [(item.feature, item.split, item.text) for item in found]
    return section(
        "data",
        "Data",
        tag("p", f"Examples: {sizes}."),
        table(("feature", "split", "anomaly"), anomalies, caption="Anomalies") if found else good,
        _classes(view),
        _statistics(view),
        _shifts(view),
        _files(view),
    )


def _classes(view: RunView) -> Child:
    report = view.output("ExampleGen", "report")
    path = Path(report.uri, "report.json") if report else None
    if path is None or not path.exists():
        return None
    counts: Mapping[str, Mapping[str, int]] = json.loads(path.read_text())["counts"]
    names = sorted({name for labels in counts.values() for name in labels}, key=judged.natural)
    if not names:
        return None
    rows = [(name, *(f"{counts[split].get(name, 0):,}" for split in counts)) for name in names]
    written = table(("class", *counts), rows, caption="Examples per class")
    return written if len(names) <= MANY_CLASSES else fold(f"{len(names)} classes", written)


def _statistics(view: RunView) -> Child:
    found = sorted(data.statistics(view), key=lambda row: (row.feature, data.split_order(row.split)))
    if not found:
        return None
    rows = [(row.feature, row.split, row.kind, f"{row.missing:.1%}", row.values) for row in found]
    head = ("feature", "split", "type", "missing", "values")
    written = table(head, rows, caption="Statistics by StatisticsGen")
    return written if len(rows) <= _MAX_OPEN_ROWS else fold(f"{len(rows)} rows of statistics", written)


def _shifts(view: RunView) -> Child:
    """What DataGate measured: drift against earlier data, skew between splits."""
    artifact = view.output("DataGate", "report")
    path = Path(artifact.uri, "report.json") if artifact else None
    shifts = json.loads(path.read_text()).get("shifts", []) if path and path.exists() else []
    if not shifts:
        return None
    shifts.sort(key=lambda row: row["limit"] - row["value"])
    rows = [
        (row["feature"], row["kind"], row["measure"], f"{row['value']:.3f}", f"{row['limit']:g}")
        for row in shifts[:_MAX_SHIFTS]
    ]
    caption = "Drift and skew as DataGate measured them, the nearest to its limit first"
    return table(("feature", "kind", "measure", "distance", "limit"), rows, caption=caption)


def _files(view: RunView) -> Child:
    rows = [
        (
            file.uri,
            f"{int(file.properties.get('bytes', 0)):,}",
            f"{int(file.properties.get('records', 0)):,}",
            str(file.properties.get("sha256", ""))[:16],
        )
        for file in view.input_files
    ]
    if not rows:
        return None
    return fold(
        f"{len(rows)} input files", table(("file", "bytes", "records", "sha256"), rows, caption="Input files")
    )

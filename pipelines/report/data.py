"""Statistics and anomalies of a run's data, read from what StatisticsGen and ExampleValidator wrote.

for row in statistics(view): ...
for anomaly in anomalies(view): ...
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.lineage.view import RunView

MAX_FEATURES = 200
_SPLITS = ("train", "validation", "test")
_STATISTICS, _ANOMALIES = "FeatureStats.pb", "SchemaDiff.pb"


@dataclass(frozen=True)
class FeatureRow:
    """One feature of one split.

    Attributes:
        split: its name.
        feature: its name.
        kind: `int`, `float`, `string` or `bytes`.
        missing: share of examples without it, in [0, 1].
        values: numbers or distinct values, in words.
    """

    split: str
    feature: str
    kind: str
    missing: float
    values: str


@dataclass(frozen=True)
class Anomaly:
    """What ExampleValidator found."""

    split: str
    feature: str
    text: str


def statistics(view: RunView) -> list[FeatureRow]:
    """A row per feature and split, at most `MAX_FEATURES` per split."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    rows = []
    for split, path in statistics_files(view):
        parsed = statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes())
        for dataset in parsed.datasets[:1]:
            for feature in dataset.features[:MAX_FEATURES]:
                rows.append(_row(split, feature, dataset.num_examples))
    return rows


def statistics_files(view: RunView) -> Iterator[tuple[str, Path]]:
    """Split and file of what StatisticsGen wrote; none where it has not run."""
    return _split_files(view, "StatisticsGen", "statistics", _STATISTICS)


def split_order(split: str) -> tuple[int, str]:
    """The usual order of splits; others after them, by name."""
    return (_SPLITS.index(split) if split in _SPLITS else len(_SPLITS), split)


def _split_files(view: RunView, node: str, key: str, name: str) -> Iterator[tuple[str, Path]]:
    artifact = view.output(node, key)
    if artifact is None:
        return
    for folder in sorted(Path(artifact.uri).glob("Split-*")):
        if (folder / name).exists():
            yield folder.name.partition("-")[2], folder / name


def _row(split: str, feature: Any, examples: int) -> FeatureRow:
    name = feature.name or ".".join(feature.path.step)
    kind = type(feature).Type.Name(feature.type).lower()
    which = feature.WhichOneof("stats")
    stats = getattr(feature, which) if which else None
    present = stats.common_stats.num_non_missing if stats is not None else 0
    missing = 1 - present / examples if examples else 0.0
    return FeatureRow(split, name, kind, missing, _values(which, stats))


def _values(which: str | None, stats: Any) -> str:
    if which == "num_stats":
        middle = f"mean {stats.mean:.4g}, deviation {stats.std_dev:.4g}"
        return f"{stats.min:.4g} to {stats.max:.4g}; {middle}; {stats.num_zeros:,} zeros"
    if which == "string_stats":
        top = [item for item in stats.top_values if item.value != "__BYTES_VALUE__"][:3]
        often = ", ".join(f"{item.value!r} {item.frequency:,.0f} times" for item in top)
        return f"{stats.unique:,} distinct" + (f"; most often {often}" if often else "")
    if which == "bytes_stats":
        distinct = f"{stats.unique:,} distinct; " if stats.unique else ""  # TFDV counts none of images
        return f"{distinct}{stats.avg_num_bytes:,.0f} bytes on average"
    return ""


def anomalies(view: RunView) -> list[Anomaly]:
    """What was found in any split; empty where the data is as the schema says, or nothing was checked."""
    from tensorflow_metadata.proto.v0 import anomalies_pb2

    found = []
    for split, path in _split_files(view, "ExampleValidator", "anomalies", _ANOMALIES):
        parsed = anomalies_pb2.Anomalies.FromString(path.read_bytes())
        for feature, info in sorted(parsed.anomaly_info.items()):
            found.append(Anomaly(split, feature, info.description or info.short_description))
    return found

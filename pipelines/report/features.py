"""Statistics of features over splits, read from what StatisticsGen wrote, without TensorFlow.

for feature in features(view): feature.splits["train"].missing
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.lineage.view import RunView
from pipelines.report import data
from pipelines.report.charts import Bucket

FIGURES = ("distinct", "least", "median", "greatest", "mean", "deviation", "zeros", "average_length")
"""`average_length` is in characters of texts and in bytes of bytes; the rest is of numbers."""

_BYTES = "__BYTES_VALUE__"
"""What TFDV writes for a value that is no text."""


@dataclass(frozen=True)
class SplitStatistics:
    """One feature of one split.

    Attributes:
        examples: in the split.
        missing: share of examples without a value, in [0, 1].
        values: as (name, number in words) pairs, in the order of a table.
        histogram: of numbers, buckets of equal width.
        quantiles: of numbers, from the least to the greatest at equal shares.
        top: of texts, the most frequent with their counts.
        figures: the numbers behind `values`, by the names of `FIGURES`.
    """

    examples: int
    missing: float
    values: Mapping[str, str]
    histogram: tuple[Bucket, ...] = ()
    quantiles: tuple[float, ...] = ()
    top: tuple[tuple[str, float], ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Feature:
    """One feature: `kind` is int, float, string or bytes; `splits` are in the usual order."""

    name: str
    kind: str
    splits: Mapping[str, SplitStatistics]


def features(view: RunView) -> list[Feature]:
    """Every feature that any split has, by name."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    kinds: dict[str, str] = {}
    found: dict[str, dict[str, SplitStatistics]] = {}
    for split, path in sorted(data.statistics_files(view), key=lambda item: data.split_order(item[0])):
        parsed = statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes())
        for dataset in parsed.datasets[:1]:
            for feature in dataset.features:
                name = feature.name or ".".join(feature.path.step)
                kinds.setdefault(name, type(feature).Type.Name(feature.type).lower())
                found.setdefault(name, {})[split] = _split(feature, dataset.num_examples)
    return [Feature(name, kinds[name], found[name]) for name in sorted(found)]


def _split(feature: Any, examples: int) -> SplitStatistics:
    which = feature.WhichOneof("stats")
    if which is None:
        return SplitStatistics(examples, 1.0, {})
    stats = getattr(feature, which)
    common = stats.common_stats
    missing = 1 - common.num_non_missing / examples if examples else 0.0
    lists = {"values in one": f"{common.min_num_values} to {common.max_num_values}"}
    several = lists if common.max_num_values > 1 else {}
    if which == "num_stats":
        words = {**several, **_numbers(stats)}
        return SplitStatistics(
            examples, missing, words, _histogram(stats), _quantiles(stats), figures=_figures(stats)
        )
    if which == "string_stats":
        values = {"distinct": f"{stats.unique:,}", "characters on average": f"{stats.avg_length:.1f}"}
        figures = {"distinct": stats.unique, "average_length": stats.avg_length}
        return SplitStatistics(examples, missing, {**several, **values}, top=_top(stats), figures=figures)
    if which == "bytes_stats":
        # TFDV counts no distinct bytes: its field of that name is always 0.
        values = {
            "bytes on average": f"{stats.avg_num_bytes:,.0f}",
            "bytes": f"{stats.min_num_bytes:,.0f} to {stats.max_num_bytes:,.0f}",
        }
        figures = {"average_length": stats.avg_num_bytes}
        return SplitStatistics(examples, missing, {**several, **values}, figures=figures)
    return SplitStatistics(examples, missing, several)


def _numbers(stats: Any) -> dict[str, str]:
    return {
        "least": f"{stats.min:.6g}",
        "median": f"{stats.median:.6g}",
        "greatest": f"{stats.max:.6g}",
        "mean": f"{stats.mean:.6g}",
        "deviation": f"{stats.std_dev:.6g}",
        "zeros": f"{stats.num_zeros:,}",
    }


def _figures(stats: Any) -> dict[str, float]:
    return {
        "least": stats.min,
        "median": stats.median,
        "greatest": stats.max,
        "mean": stats.mean,
        "deviation": stats.std_dev,
        "zeros": stats.num_zeros,
    }


def _histogram(stats: Any) -> tuple[Bucket, ...]:
    standard = type(stats.histograms[0]).STANDARD if stats.histograms else None
    for histogram in stats.histograms:
        if histogram.type == standard:
            return tuple(
                Bucket(item.low_value, item.high_value, item.sample_count) for item in histogram.buckets
            )
    return ()


def _quantiles(stats: Any) -> tuple[float, ...]:
    for histogram in stats.histograms:
        if histogram.type == type(histogram).QUANTILES and histogram.buckets:
            return (histogram.buckets[0].low_value, *(item.high_value for item in histogram.buckets))
    return ()


def _top(stats: Any) -> tuple[tuple[str, float], ...]:
    return tuple((item.value, item.frequency) for item in stats.top_values if item.value != _BYTES)

"""How far the distribution of a feature has moved.

    found = distances(current, previous, schema, limits)
    [shift.sentence() for shift in found if shift.too_far]

Categorical features are compared by the largest change of any value's share
(L-infinity, by TFDV), numbers by Jensen-Shannon divergence (base 2) over the
quantiles of both; both lie in [0, 1]. TFDV's own divergence of numbers works
on bins of equal width, where one outlier makes equal distributions differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from components.data_gate.divergence import Bucket, chance, jensen_shannon

Kind = Literal["drift", "skew"]


@dataclass(frozen=True)
class Limits:
    """How far features may move.

    Attributes:
        default: for features without a limit of their own; None leaves them out.
        features: feature -> limit.
    """

    default: float | None
    features: Mapping[str, float]

    def of(self, feature: str) -> float | None:
        return self.features.get(feature, self.default)


@dataclass(frozen=True)
class Shift:
    """One feature's distance between two data sets.

    Attributes:
        feature: its name.
        kind: drift (against earlier data) or skew (between splits).
        measure: its name.
        value: the distance, in [0, 1].
        limit: what was allowed.
        chance: how much of it so few examples may give by chance.
    """

    feature: str
    kind: Kind
    measure: str
    value: float
    limit: float
    chance: float

    @property
    def too_far(self) -> bool:
        return self.value > self.limit + self.chance

    def sentence(self) -> str:
        against = "the earlier data" if self.kind == "drift" else "the training split"
        return (
            f"{self.kind}: feature {self.feature!r} has moved by {self.value:.3f} ({self.measure}) against "
            f"{against}; at most {self.limit:g} (and {self.chance:.3f} by chance) is allowed"
        )


def distances(
    current: statistics_pb2.DatasetFeatureStatisticsList,
    other: statistics_pb2.DatasetFeatureStatisticsList,
    schema: schema_pb2.Schema,
    limits: Limits,
    kind: Kind,
) -> list[Shift]:
    """The distance of every feature that has a limit and is in both data sets."""
    by_chance = chance(current.datasets[0].num_examples, other.datasets[0].num_examples)
    found = [
        Shift(feature, kind, measure, value, limit, by_chance)
        for measure, values in (
            ("L-infinity", _categorical(current, other, schema, limits)),
            ("Jensen-Shannon", _numeric(current, other)),
        )
        for feature, value in values.items()
        if (limit := limits.of(feature)) is not None
    ]
    return sorted(found, key=lambda shift: shift.feature)


def _categorical(
    current: statistics_pb2.DatasetFeatureStatisticsList,
    other: statistics_pb2.DatasetFeatureStatisticsList,
    schema: schema_pb2.Schema,
    limits: Limits,
) -> dict[str, float]:
    """Feature -> largest change of a value's share, for texts and codes, by TFDV."""
    compared = schema_pb2.Schema()
    compared.CopyFrom(schema)
    numbers = _quantiles(current)
    for feature in compared.feature:
        feature.ClearField("drift_comparator")
        feature.ClearField("skew_comparator")
        limit = limits.of(feature.name)
        if limit is not None and feature.name not in numbers:
            feature.drift_comparator.infinity_norm.threshold = limit
    anomalies = tfdv.validate_statistics(current, compared, previous_statistics=other)
    return {
        info.path.step[0]: measurement.value
        for info in anomalies.drift_skew_info
        for measurement in info.drift_measurements
    }


def _numeric(
    current: statistics_pb2.DatasetFeatureStatisticsList,
    other: statistics_pb2.DatasetFeatureStatisticsList,
) -> dict[str, float]:
    """Feature -> Jensen-Shannon divergence, for the numbers that both data sets have."""
    ours, theirs = _quantiles(current), _quantiles(other)
    return {name: jensen_shannon(ours[name], theirs[name]) for name in ours if name in theirs}


def _quantiles(statistics: statistics_pb2.DatasetFeatureStatisticsList) -> dict[str, list[Bucket]]:
    """Feature -> buckets (low, high, count) of equal count, for numbers with a value."""
    kind = statistics_pb2.Histogram.QUANTILES
    return {
        feature.path.step[0]: [(b.low_value, b.high_value, b.sample_count) for b in histogram.buckets]
        for feature in statistics.datasets[0].features
        for histogram in feature.num_stats.histograms
        if histogram.type == kind and histogram.buckets
    }

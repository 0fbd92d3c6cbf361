"""How far the distribution of a feature has moved, by TFDV's own measures.

    found = distances(current, previous, schema, limits)
    [shift.sentence() for shift in found if shift.too_far]

Categorical features are compared by the largest change of any value's share
(L-infinity), numbers by Jensen-Shannon divergence; both lie in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

Kind = Literal["drift", "skew"]
_CHANCE = 1e-3
"""A shift that chance alone exceeds this seldom is not put down to chance."""


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
        measure: TFDV's name for it.
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


def chance(examples: int, others: int) -> float:
    """What two samples of one distribution may differ by, as an upper bound.

    The Dvoretzky-Kiefer-Wolfowitz inequality with Massart's constant (1990) for
    each sample; without it 20 examples in a split would drift in every run.
    """
    scale = math.sqrt(math.log(2 / _CHANCE) / 2)
    return scale * (1 / math.sqrt(max(examples, 1)) + 1 / math.sqrt(max(others, 1)))


def distances(
    current: statistics_pb2.DatasetFeatureStatisticsList,
    other: statistics_pb2.DatasetFeatureStatisticsList,
    schema: schema_pb2.Schema,
    limits: Limits,
    kind: Kind,
) -> list[Shift]:
    """The distance of every feature that has a limit and is in both data sets."""
    compared = schema_pb2.Schema()
    compared.CopyFrom(schema)
    for feature in compared.feature:
        _set_comparator(feature, limits.of(feature.name), kind)
    name = "previous_statistics" if kind == "drift" else "serving_statistics"
    anomalies = tfdv.validate_statistics(current, compared, **{name: other})
    by_chance = chance(current.datasets[0].num_examples, other.datasets[0].num_examples)
    found = []
    for info in anomalies.drift_skew_info:
        feature = info.path.step[0]
        limit = limits.of(feature)
        measurements = info.drift_measurements if kind == "drift" else info.skew_measurements
        for measurement in measurements:
            if limit is not None:
                found.append(Shift(feature, kind, _measure(measurement), measurement.value, limit, by_chance))
    return sorted(found, key=lambda shift: shift.feature)


def _set_comparator(feature: Any, limit: float | None, kind: Kind) -> None:
    for name in ("drift_comparator", "skew_comparator"):
        feature.ClearField(name)
    if limit is None:
        return
    comparator = feature.drift_comparator if kind == "drift" else feature.skew_comparator
    numeric = feature.type == schema_pb2.FLOAT or (
        feature.type == schema_pb2.INT and not feature.int_domain.is_categorical
    )
    if numeric:
        comparator.jensen_shannon_divergence.threshold = limit
    else:
        comparator.infinity_norm.threshold = limit


def _measure(measurement: Any) -> str:
    name = type(measurement).Type.Name(measurement.type)
    return str(name).lower().replace("_", " ")

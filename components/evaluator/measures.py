"""Metrics as sums over many examples at once; what is left to do with the sums is TFMA's.

    plan = plan_of(config)                              # UnsupportedError where TFMA itself is needed
    sums = [measure.sums(batch, rows, codes, size) for measure in plan.measures]
    values = measure.values(sums_of_a_slice)            # what TFMA's own combiner would have given

TFMA splits a metric into computations that go over the examples one by one
(36 of the 37 seconds that 100,000 rows take) and others that are derived from
their results. Only the former are done here: counts, means, confusion
matrices at thresholds and calibration histograms, from which AUC, precision,
recall, calibration and others are derived.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from tensorflow_model_analysis.contrib.aggregates import binary_confusion_matrices as matrices
from tensorflow_model_analysis.evaluators import metrics_plots_and_validations_evaluator as tfma_evaluator
from tensorflow_model_analysis.metrics import (
    binary_confusion_matrices,
    calibration_histogram,
    example_count,
    mean_regression_error,
    metric_specs,
    tf_metric_wrapper,
)
from tensorflow_model_analysis.proto import config_pb2

EPSILON = 1e-7
"""Keras's: probabilities are kept this far from 0 and 1 before a logarithm is taken."""


class UnsupportedError(Exception):
    """A configuration that needs TFMA's own engine; the message says why."""


@dataclass(frozen=True)
class Batch:
    """Many examples.

    Attributes:
        labels: (B,) int64 class ids; of a regression (B,) float32.
        scores: model name -> (B, C) float32; of a regression (B,).
    """

    labels: np.ndarray
    scores: Mapping[str, np.ndarray]


class Measure(Protocol):
    """One of TFMA's computations, over many examples at once. Sums are arrays that add up."""

    def sums(self, batch: Batch, rows: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
        """(size, W) float64: the sums of each slice, of members `rows` with slices `codes`."""

    def values(self, sums: np.ndarray) -> dict[Any, Any]:
        """TFMA's results by TFMA's keys, from the (W,) sums of one slice."""


@dataclass(frozen=True)
class Count:
    """How many examples there are."""

    keys: Sequence[Any]

    def sums(self, batch: Batch, rows: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
        return np.bincount(codes, minlength=size).astype(np.float64)[:, None]

    def values(self, sums: np.ndarray) -> dict[Any, Any]:
        return {key: float(sums[0]) for key in self.keys}


@dataclass(frozen=True)
class Means:
    """Means of what Keras's metrics give for each example."""

    model: str
    rows_of: Mapping[Any, Callable[[np.ndarray, np.ndarray], np.ndarray]]

    def sums(self, batch: Batch, rows: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
        scores = batch.scores[self.model]
        parts = [np.bincount(codes, minlength=size).astype(np.float64)]
        for rows_of in self.rows_of.values():
            weights = rows_of(batch.labels, scores)[rows]
            parts.append(np.bincount(codes, weights=weights, minlength=size).astype(np.float64))
        return np.stack(parts, axis=1)

    def values(self, sums: np.ndarray) -> dict[Any, Any]:
        # As Keras keeps it: float32 at the end.
        return {key: np.float32(total / sums[0]) for key, total in zip(self.rows_of, sums[1:], strict=True)}


@dataclass(frozen=True)
class Errors:
    """The mean error of numbers; examples whose error is no number are left out."""

    key: Any
    error_of: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def sums(self, batch: Batch, rows: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
        scores = batch.scores[self.key.model_name]
        errors = self.error_of(batch.labels, scores).astype(np.float64)[rows]
        known = ~np.isnan(errors)
        counts = np.bincount(codes[known], minlength=size).astype(np.float64)
        return np.stack([counts, np.bincount(codes[known], weights=errors[known], minlength=size)], axis=1)

    def values(self, sums: np.ndarray) -> dict[Any, Any]:
        return {self.key: float(sums[1] / sums[0]) if sums[0] else math.nan}


@dataclass(frozen=True)
class Thresholds:
    """How many examples of one class, and of the others, score between thresholds."""

    key: Any
    thresholds: Sequence[float]

    def sums(self, batch: Batch, rows: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
        truth, scores = _one_class(self.key, batch)
        between = np.searchsorted(np.asarray(self.thresholds), scores, side="left")
        width = len(self.thresholds) + 1
        cells = (codes * 2 + truth[rows]) * width + between[rows]
        return np.bincount(cells, minlength=size * 2 * width).reshape(size, 2 * width).astype(np.float64)

    def values(self, sums: np.ndarray) -> dict[Any, Any]:
        """One stand-in per class and interval, with the number of examples as its weight."""
        inside = [*self.thresholds, self.thresholds[-1] + 1.0]
        counted = matrices.BinaryConfusionMatrices(self.thresholds)
        found = counted.add_input(
            counted.create_accumulator(),
            labels=[0.0] * len(inside) + [1.0] * len(inside),
            predictions=[*inside, *inside],
            example_weights=sums.tolist(),
            example_id=None,
        )
        return {self.key: counted.extract_output(found)}


@dataclass(frozen=True)
class Histogram:
    """Labels, scores and counts in equal buckets of one class's score."""

    key: Any
    buckets: int

    def sums(self, batch: Batch, rows: np.ndarray, codes: np.ndarray, size: int) -> np.ndarray:
        truth, scores = _one_class(self.key, batch)
        exact = scores.astype(np.float64)
        index = np.clip(exact * self.buckets + 1, 0, self.buckets + 1).astype(np.int64)
        cells = codes * (self.buckets + 2) + index[rows]
        length = size * (self.buckets + 2)
        parts = [
            np.bincount(cells, weights=weights, minlength=length).reshape(size, -1)
            for weights in (truth[rows].astype(np.float64), exact[rows], np.ones(len(rows)))
        ]
        return np.concatenate(parts, axis=1)

    def values(self, sums: np.ndarray) -> dict[Any, Any]:
        labels, predictions, counts = sums.reshape(3, -1)
        return {
            self.key: [
                calibration_histogram.Bucket(int(index), labels[index], predictions[index], counts[index])
                for index in np.flatnonzero(counts)
            ]
        }


def _one_class(key: Any, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """(B,) int64, 1 where an example is of the key's class, and (B,) its score for it."""
    number = key.sub_key.class_id
    return (batch.labels == number).astype(np.int64), batch.scores[key.model_name][:, number]


def accuracy(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(B,) 1 where the highest score is the label's."""
    return (scores.argmax(axis=1) == labels).astype(np.float64)


def top_k(labels: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
    """(B,) 1 where fewer than k scores are higher than the label's."""
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    return ((scores > own).sum(axis=1) < k).astype(np.float64)


def cross_entropy(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """(B,) -log of the label's share of the scores, kept from 0 and 1 as Keras does."""
    clipped = np.clip(scores.astype(np.float64), EPSILON, 1 - EPSILON)
    own = np.take_along_axis(clipped, labels[:, None], axis=1)[:, 0]
    return np.log(clipped.sum(axis=1)) - np.log(own)


_KERAS: Mapping[str, Callable[[Mapping[str, Any]], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "SparseCategoricalAccuracy": lambda config: accuracy,
    "SparseTopKCategoricalAccuracy": lambda config: partial(top_k, k=int(config.get("k", 5))),
    "SparseCategoricalCrossentropy": lambda config: cross_entropy,
}


_ERRORS: Mapping[type, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    mean_regression_error._MeanAbsoluteErrorCombiner: lambda labels, scores: np.abs(labels - scores),
    mean_regression_error._MeanSquaredErrorCombiner: lambda labels, scores: np.square(labels - scores),
}


@dataclass(frozen=True)
class Plan:
    """What is computed here, and what TFMA derives from it."""

    measures: Sequence[Any]
    derived: Sequence[Any]


def plan_of(config: config_pb2.EvalConfig) -> Plan:
    """The computations of a configuration.

    Raises:
        UnsupportedError: it asks for something that only TFMA's own engine does.
    """
    _check(config)
    computations = tfma_evaluator._filter_and_separate_computations(
        metric_specs.to_computations(config.metrics_specs, eval_config=config)
    )
    if computations.cross_slice_computations or computations.ci_derived_computations:
        raise UnsupportedError("metrics over several slices or with confidence intervals")
    classes = _classes(config)
    measures = [_measure(item, classes) for item in computations.non_derived_computations]
    return Plan(measures, computations.derived_computations)


def _check(config: config_pb2.EvalConfig) -> None:
    wanted = {
        "slices by a feature's value": any(spec.feature_values for spec in config.slicing_specs),
        "slices by SQL": any(spec.slice_keys_sql for spec in config.slicing_specs),
        "slices against each other": bool(config.cross_slicing_specs),
        "confidence intervals": config.options.compute_confidence_intervals.value,
        "a least size of slices": config.options.min_slice_size.value > 1,
        "weights": any(spec.example_weight_key for spec in config.model_specs),
        "queries": any(spec.query_key for spec in config.metrics_specs),
        "aggregation": any(spec.HasField("aggregate") for spec in config.metrics_specs),
    }
    for name, present in wanted.items():
        if present:
            raise UnsupportedError(name)


def _classes(config: config_pb2.EvalConfig) -> dict[str, tuple[str, dict[str, Any]]]:
    """Metric name -> its class's name and settings, for those that have names of their own."""
    found = {}
    for spec in config.metrics_specs:
        for metric in spec.metrics:
            settings = json.loads(metric.config) if metric.config else {}
            if metric.class_name in _KERAS:
                known = settings.get("name") or _snake(metric.class_name)
                found[known] = (metric.class_name, settings)
    return found


def _snake(name: str) -> str:
    """Keras's name for a metric without one: SparseTopKCategoricalAccuracy -> sparse_top_k_..."""
    words = "".join(f" {letter}" if letter.isupper() else letter for letter in name).split()
    return "_".join(word.lower() for word in words)


def _measure(computation: Any, classes: Mapping[str, tuple[str, dict[str, Any]]]) -> Measure:
    combiner, keys = computation.combiner, computation.keys
    if isinstance(combiner, example_count._ExampleCountCombiner):
        return Count(tuple(keys))
    if isinstance(combiner, tf_metric_wrapper._CompilableMetricsCombiner):
        return _means(keys, classes)
    key = keys[0]
    if type(combiner) in _ERRORS and key.sub_key is None:
        return Errors(key, _ERRORS[type(combiner)])
    by_class = key.sub_key is not None and key.sub_key.class_id is not None and not key.aggregation_type
    if isinstance(combiner, binary_confusion_matrices._BinaryConfusionMatrixCombiner) and by_class:
        thresholds = [float(value) for value in combiner._binary_confusion_matrices._thresholds]
        if thresholds == sorted(thresholds):
            return Thresholds(key, thresholds)
    if isinstance(combiner, calibration_histogram._CalibrationHistogramCombiner) and by_class:
        plain = combiner._left == 0.0 and combiner._range == 1.0 and combiner._prediction_based_bucketing
        if plain:
            return Histogram(key, int(combiner._num_buckets))
    raise UnsupportedError(f"the metric {key.name!r}")


def _means(keys: Sequence[Any], classes: Mapping[str, tuple[str, dict[str, Any]]]) -> Means:
    rows_of = {}
    for key in keys:
        if key.name not in classes or key.sub_key is not None:
            raise UnsupportedError(f"the metric {key.name!r}")
        name, settings = classes[key.name]
        rows_of[key] = _KERAS[name](settings)
    return Means(keys[0].model_name, rows_of)

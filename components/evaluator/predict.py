"""Adds the answers of candidate and baseline to each example, on Beam."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
import tensorflow as tf

from components.serving import examples, runtimes
from components.serving.servable import class_index

LABEL_ID = "label_id"
LABEL_VALUE = "label_value"
CANDIDATE_SCORES = "candidate_scores"
BASELINE_SCORES = "baseline_scores"


@dataclass(frozen=True)
class Models:
    """Where the servables lie; `baseline` is empty when there is none."""

    candidate: str
    baseline: str


class Predict(beam.DoFn):
    """A batch of serialized Examples to Examples with scores.

    The output holds the slicing features, the label, `label_id` (the
    candidate's class id; C where the candidate does not know the class),
    `candidate_scores` and `baseline_scores` (C floats each, in the candidate's
    class order, with one more column for unknown classes). Of a regression it
    holds `label_value` instead, and both models' one number.
    """

    def __init__(self, models: Models, label: str, kept_features: Sequence[str]) -> None:
        super().__init__()
        self._models = models
        self._label = label
        self._slicing = sorted(set(kept_features) - {label})
        self._kept = sorted({label, *kept_features})

    def setup(self) -> None:
        self._candidate = runtimes.load(self._models.candidate)
        self._baseline = runtimes.load(self._models.baseline) if self._models.baseline else None

    def process(self, batch: Sequence[bytes]) -> Iterator[bytes]:
        if self._candidate.servable.class_names:
            yield from self._classified(batch)
        else:
            yield from self._valued(batch)

    def _valued(self, batch: Sequence[bytes]) -> Iterator[bytes]:
        labels = examples.numbers_of(batch, self._label)
        candidate = self._candidate.predict(batch).scores
        baseline = self._baseline.predict(batch).scores if self._baseline is not None else None
        for row, record in enumerate(batch):
            # Without the label itself: whole numbers beside others would be of another type.
            kept = _keep(record, self._slicing)
            _set_floats(kept, CANDIDATE_SCORES, candidate[row : row + 1])
            if baseline is not None:
                _set_floats(kept, BASELINE_SCORES, baseline[row : row + 1])
            _set_floats(kept, LABEL_VALUE, labels[row : row + 1])
            yield kept.SerializeToString(deterministic=True)

    def _classified(self, batch: Sequence[bytes]) -> Iterator[bytes]:
        names = self._candidate.servable.class_names
        labels = examples.label_ids(examples.labels_of(batch, self._label), names)
        candidate = with_unknown(self._candidate.predict(batch).scores)
        baseline = None
        if self._baseline is not None:
            own = self._baseline.predict(batch).scores
            baseline = with_unknown(reorder(own, self._baseline.servable.class_names, names))
        for row, record in enumerate(batch):
            kept = _keep(record, self._kept)
            _set_floats(kept, CANDIDATE_SCORES, candidate[row])
            if baseline is not None:
                _set_floats(kept, BASELINE_SCORES, baseline[row])
            label_id = int(labels[row]) if labels[row] >= 0 else len(names)
            kept.features.feature[LABEL_ID].int64_list.value[:] = [label_id]
            yield kept.SerializeToString(deterministic=True)


def reorder(scores: np.ndarray, names: Sequence[str], wanted: Sequence[str]) -> np.ndarray:
    """Columns in another class order; 0 for classes that the model does not know.

    Args:
        scores: (B, len(names)) float32.
        names: class names of the columns.
        wanted: class names of the result's columns.

    Returns:
        (B, len(wanted)) float32.
    """
    index = class_index(names)
    result = np.zeros((len(scores), len(wanted)), np.float32)
    for column, name in enumerate(wanted):
        if name in index:
            result[:, column] = scores[:, index[name]]
    return result


def with_unknown(scores: np.ndarray) -> np.ndarray:
    """A last column of zeros: an example of an unknown class is then always wrong."""
    return np.pad(scores, ((0, 0), (0, 1)))


def _keep(record: bytes, names: Sequence[str]) -> tf.train.Example:
    source = tf.train.Example.FromString(record).features.feature
    kept = tf.train.Example()
    for name in names:
        if name in source:
            kept.features.feature[name].CopyFrom(source[name])
    return kept


def _set_floats(example: tf.train.Example, name: str, values: np.ndarray) -> None:
    example.features.feature[name].float_list.value[:] = values.tolist()

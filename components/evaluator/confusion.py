"""Which class was taken for which, counted on Beam beside TFMA's metrics.

predicted | "Confusion" >> Confusion(class_names, "label", folder)      # writes confusion.jsonl
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import apache_beam as beam
import numpy as np
import tensorflow as tf

from components.evaluator import predict
from components.serving import examples

FILE = "confusion.jsonl"
"""A line for each pair that occurs: `label`, `predicted`, `examples`."""


class Confusion(beam.PTransform):
    """Counts pairs of label and prediction, and writes them to `confusion.jsonl` in a folder."""

    def __init__(self, class_names: Sequence[str], label: str, folder: str) -> None:
        """Makes the transform.

        Args:
            class_names: of the candidate, in the order of its scores.
            label: label feature.
            folder: of the evaluation.
        """
        super().__init__()
        self._names, self._label, self._folder = tuple(class_names), label, folder

    def expand(self, predicted: beam.PCollection) -> beam.PCollection:
        return (
            predicted
            | "Pair" >> beam.Map(pair, self._label, self._names)
            | "Count" >> beam.combiners.Count.PerElement()
            | "Line" >> beam.Map(_line)
            | "Write"
            >> beam.io.WriteToText(str(Path(self._folder, FILE)), num_shards=1, shard_name_template="")
        )


def pair(record: bytes, label: str, class_names: Sequence[str]) -> tuple[str, str]:
    """Label and predicted class of what `predict.Predict` made; labels may be unknown to the model."""
    scores = tf.train.Example.FromString(record).features.feature[predict.CANDIDATE_SCORES].float_list.value
    best = int(np.argmax(scores[: len(class_names)]))
    return examples.labels_of([record], label)[0], class_names[best]


def _line(counted: tuple[tuple[str, str], int]) -> str:
    (label, predicted), count = counted
    return json.dumps({"label": label, "predicted": predicted, "examples": count})

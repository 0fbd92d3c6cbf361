"""Which class was taken for which, counted on Beam beside the metrics.

    counted | "Confusion" >> WriteConfusion(folder)      # writes confusion.jsonl

`counted` holds ((label, predicted class), examples), from either engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import apache_beam as beam
import numpy as np
import tensorflow as tf

from components.evaluator import predict
from components.serving import examples

FILE = "confusion.jsonl"
"""A line for each pair that occurs: `label`, `predicted`, `examples`."""

Counted = tuple[tuple[str, str], int]


class WriteConfusion(beam.PTransform):
    """Adds counts of the same pair up, and writes them to `confusion.jsonl` in a folder."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def expand(self, counted: beam.PCollection) -> beam.PCollection:
        return (
            counted
            | "Add" >> beam.CombinePerKey(sum)
            | "Line" >> beam.Map(_line)
            | "Write"
            >> beam.io.WriteToText(str(Path(self._folder, FILE)), num_shards=1, shard_name_template="")
        )


def of_record(record: bytes, label: str, class_names: Sequence[str]) -> Counted:
    """The pair of what `predict.Predict` made; labels may be unknown to the model."""
    scores = tf.train.Example.FromString(record).features.feature[predict.CANDIDATE_SCORES].float_list.value
    best = int(np.argmax(scores[: len(class_names)]))
    return (examples.labels_of([record], label)[0], class_names[best]), 1


def of_batch(
    labels: Sequence[str], codes: np.ndarray, scores: np.ndarray, class_names: Sequence[str]
) -> Iterator[Counted]:
    """The pairs of a batch.

    Args:
        labels: distinct labels.
        codes: (B,) int, positions in `labels`; -1 has no label, and is left out.
        scores: (B, C) float32, or with more columns, which are not read.
        class_names: C names.
    """
    width = len(class_names)
    there = codes >= 0
    pairs = codes[there].astype(np.int64) * width + scores[there, :width].argmax(axis=1)
    for pair, count in zip(*np.unique(pairs, return_counts=True), strict=True):
        yield (labels[int(pair) // width], class_names[int(pair) % width]), int(count)


def _line(counted: Counted) -> str:
    (label, predicted), count = counted
    return json.dumps({"label": label, "predicted": predicted, "examples": count})

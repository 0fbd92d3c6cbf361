"""Reads the records and labels of an Examples artifact's split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.errors import DataError


def read_split(uri: str, split: str, limit: int | None = None) -> list[bytes]:
    """Serialized Examples of a split, in file order.

    Raises:
        DataError: the split has no files.
    """
    files = sorted(str(path) for path in Path(uri, f"Split-{split}").glob("*"))
    if not files:
        raise DataError(f"The split {split!r} has no files", place=uri, remedy="Run ExampleGen again.")
    dataset = tf.data.TFRecordDataset(files, compression_type="GZIP")
    return list((dataset if limit is None else dataset.take(limit)).as_numpy_iterator())


def labels_of(records: Sequence[bytes], feature: str) -> list[str]:
    """The label of each record as text, whether it is a text or a whole number."""
    return [_label_of(record, feature) for record in records]


def _label_of(record: bytes, feature: str) -> str:
    value = tf.train.Example.FromString(record).features.feature[feature]
    values = getattr(value, value.WhichOneof("kind")).value
    return values[0].decode() if isinstance(values[0], bytes) else str(values[0])


def label_ids(labels: Sequence[str], class_names: Sequence[str]) -> np.ndarray:
    """(N,) int64 class ids; -1 where a label is not among the class names."""
    index = {name: position for position, name in enumerate(class_names)}
    return np.array([index.get(label, -1) for label in labels], np.int64)

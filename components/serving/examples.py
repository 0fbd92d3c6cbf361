"""Reads the records and labels of an Examples artifact's split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.errors import DataError
from components.serving.servable import Servable, Signature
from components.serving.spread import spread


def read_split(uri: str, split: str, limit: int | None = None) -> list[bytes]:
    """Serialized Examples of a split, in file order.

    Raises:
        DataError: the split has no files.
    """
    dataset = _dataset(_files(uri, split))
    return list((dataset if limit is None else dataset.take(limit)).as_numpy_iterator())


def read_at(uri: str, split: str, places: Sequence[int]) -> list[bytes]:
    """The serialized Examples at these places of a split, which rise.

    Raises:
        DataError: the split has no files.
    """
    return _at(_dataset(_files(uri, split)), places)


def read_spread(uri: str, split: str, count: int, *, max_files: int | None = None) -> tuple[list[bytes], int]:
    """Serialized Examples evenly apart, in file order, and of how many they were taken.

    It reads the split twice: what it has is nowhere written.

    Args:
        uri: the artifact's folder.
        split: the split.
        count: at most so many.
        max_files: of more files, so many evenly apart stand for all.

    Raises:
        DataError: the split has no files.
    """
    files = _files(uri, split)
    if max_files is not None:
        files = [files[place] for place in spread(len(files), max_files)]
    total = sum(1 for _ in _dataset(files))
    return _at(_dataset(files), spread(total, count)), total


def _files(uri: str, split: str) -> list[str]:
    files = sorted(str(path) for path in Path(uri, f"Split-{split}").glob("*"))
    if not files:
        raise DataError(f"The split {split!r} has no files", place=uri, remedy="Run ExampleGen again.")
    return files


def _dataset(files: Sequence[str]) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(files, compression_type="GZIP")


def _at(dataset: tf.data.Dataset, places: Sequence[int]) -> list[bytes]:
    wanted = iter([*places, -1])
    place = next(wanted)
    found: list[bytes] = []
    for number, record in enumerate(dataset.take(places[-1] + 1 if places else 0).as_numpy_iterator()):
        if number == place:
            found.append(record)
            place = next(wanted)
    return found


def labels_of(records: Sequence[bytes], feature: str) -> list[str]:
    """The label of each record as text, whether it is a text or a whole number."""
    return [_label_of(record, feature) for record in records]


def _label_of(record: bytes, feature: str) -> str:
    value = tf.train.Example.FromString(record).features.feature[feature]
    values = getattr(value, value.WhichOneof("kind")).value
    return values[0].decode() if isinstance(values[0], bytes) else str(values[0])


def feature_text(record: bytes, feature: str) -> str | None:
    """The first value of a feature as text; None where it is missing."""
    value = tf.train.Example.FromString(record).features.feature.get(feature)
    kind = value.WhichOneof("kind") if value is not None else None
    values = getattr(value, kind).value if kind else ()
    if not values:
        return None
    return values[0].decode(errors="replace") if isinstance(values[0], bytes) else str(values[0])


def numbers_of(records: Sequence[bytes], feature: str) -> np.ndarray:
    """The label of each record of a regression: (N,) float32.

    Raises:
        DataError: a label is missing or no number.
    """
    try:
        return np.array([float(text) for text in labels_of(records, feature)], np.float32)
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise DataError(
            f"A record has no number as its label: {error}",
            place=f"feature {feature}",
            remedy="Correct the record, or have it put aside (data.on_bad_record: quarantine).",
        ) from error


def values_of(records: Sequence[bytes], feature: str) -> list[bytes]:
    """The one value of a string feature in each record."""
    spec = {feature: tf.io.FixedLenFeature([], tf.string)}
    return list(tf.io.parse_example(tf.constant(list(records), tf.string), spec)[feature].numpy())


def raw_inputs(
    servable: Servable, records: Sequence[bytes], raw_features: Mapping[str, str]
) -> dict[Signature, list[bytes]]:
    """What each signature takes, cut out of serialized Examples.

    Args:
        servable: its first signature takes the records themselves.
        records: serialized Examples.
        raw_features: signature name -> the feature that it takes.
    """
    first, *others = servable.signatures
    inputs = {first: list(records)}
    for signature in others:
        if signature.name in raw_features:
            inputs[signature] = values_of(records, raw_features[signature.name])
    return inputs


def label_ids(labels: Sequence[str], class_names: Sequence[str]) -> np.ndarray:
    """(N,) int64 class ids; -1 where a label is not among the class names."""
    index = {name: position for position, name in enumerate(class_names)}
    return np.array([index.get(label, -1) for label in labels], np.int64)

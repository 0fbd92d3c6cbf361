"""Answers to files: JSON Lines, or TFRecords of Examples."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import tensorflow as tf

Format = Literal["jsonl", "tfrecord"]


@dataclass(frozen=True)
class Row:
    """What a model says of one input.

    Attributes:
        file: as it was named.
        record: its number there, from 0.
        label: the class with the highest score; empty of a regression.
        score: that score; of a regression its number.
        scores: all, in the order of the manifest's `class_names`.
    """

    file: str
    record: int
    label: str
    score: float
    scores: list[float]


Write = Callable[[Row], None]


@contextlib.contextmanager
def open_writer(folder: Path, number: int, output_format: Format) -> Iterator[Write]:
    """Writes rows to `part-<number>`."""
    if output_format == "jsonl":
        with open(folder / f"part-{number:06d}.jsonl", "w", encoding="utf-8") as file:
            yield lambda row: _write_line(file.write, row)
    else:
        path = str(folder / f"part-{number:06d}.tfrecord.gz")
        with tf.io.TFRecordWriter(path, "GZIP") as writer:
            yield lambda row: writer.write(_example(row))


def _write_line(write: Callable[[str], object], row: Row) -> None:
    values = asdict(row)
    # Seven digits hold a float32; Python would print seventeen.
    values |= {"score": round(row.score, 7), "scores": [round(score, 7) for score in row.scores]}
    write(json.dumps(values, ensure_ascii=False) + "\n")


def _example(row: Row) -> bytes:
    example = tf.train.Example()
    feature = example.features.feature
    feature["file"].bytes_list.value.append(row.file.encode())
    feature["record"].int64_list.value.append(row.record)
    feature["label"].bytes_list.value.append(row.label.encode())
    feature["score"].float_list.value.append(row.score)
    feature["scores"].float_list.value.extend(row.scores)
    return bytes(example.SerializeToString(deterministic=True))

"""The Beam part of ExampleGen: read, check, split, write.

Output files hold their records in input order, so that the same input gives
the same bytes in every run and under every runner. (TFX's own writer
shuffles, which makes training order differ from run to run.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

import apache_beam as beam
import tensorflow as tf

from components.errors import DataError
from components.example_gen import check
from components.example_gen.read import READERS
from components.example_gen.request import Request
from components.example_gen.split import split_of

Position = tuple[int, int]
"""File index and record number, both from 0."""

SHARD_BYTES = 64 << 20
"""Aim for the size of an output file; a shard is sorted in memory."""

_MAX_REPORTED = 1000


class _ReadAndCheck(beam.DoFn):
    """(file index, path) -> (split, (position, record)); faults to the output `bad`."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = request

    def process(self, element: tuple[int, str]) -> Iterator[Any]:
        index, path = element
        request = self._request
        try:
            for number, record in READERS[request.format](path):
                reason = check.fault(record, request.features)
                if reason:
                    yield beam.pvalue.TaggedOutput("bad", _bad(index, path, number, reason))
                    continue
                split = split_of(record, request.splits)
                yield beam.pvalue.TaggedOutput("counts", ((split, check.label_of(record, request.label)), 1))
                yield split, ((index, number), record)
        except DataError as error:
            yield beam.pvalue.TaggedOutput("bad", {"position": (index, 1 << 62), **_error_fields(error)})


def _bad(index: int, path: str, number: int, reason: str) -> dict[str, Any]:
    return {
        "position": (index, number),
        "headline": f"A record cannot be used: {reason}",
        "place": f"{path}, record {number}",
        "remedy": "Mend or remove the record (records are numbered from 0).",
    }


def _error_fields(error: DataError) -> dict[str, Any]:
    return {"headline": error.headline, "place": error.place, "remedy": error.remedy}


class _WriteShard(beam.DoFn):
    """((split, shard), records) -> one gzipped TFRecord file, in input order."""

    def __init__(self, root: str, shards: int) -> None:
        super().__init__()
        self._root = root
        self._shards = shards

    def process(self, element: tuple[tuple[str, int], Iterable[tuple[Position, bytes]]]) -> None:
        (split, shard), records = element
        folder = str(PurePosixPath(self._root) / f"Split-{split}")
        tf.io.gfile.makedirs(folder)
        path = f"{folder}/data_tfrecord-{shard:05d}-of-{self._shards:05d}.gz"
        with tf.io.TFRecordWriter(path, "GZIP") as writer:
            for _, record in sorted(records):
                writer.write(record)


def build(pipeline: beam.Pipeline, request: Request, examples_uri: str, report_uri: str, shards: int) -> None:
    """Adds the steps to `pipeline`.

    Args:
        pipeline: where to add.
        request: files, format, splits and rules.
        examples_uri: folder for `Split-*` folders of gzipped TFRecords.
        report_uri: folder for `counts-*` and `bad-*`, one JSON object a line.
        shards: files per split.
    """
    outputs = (
        pipeline
        | "Files" >> beam.Create(list(enumerate(request.files)))
        | "SpreadFiles" >> beam.Reshuffle()
        | "ReadAndCheck" >> beam.ParDo(_ReadAndCheck(request)).with_outputs("bad", "counts", main="good")
    )
    _ = (
        outputs.good
        | "ToShards" >> beam.Map(_to_shard, shards=shards)
        | "GroupShards" >> beam.GroupByKey()
        | "WriteShards" >> beam.ParDo(_WriteShard(examples_uri, shards))
    )
    _ = (
        outputs.counts
        | "CountLabels" >> beam.CombinePerKey(sum)
        | "CountsToJson" >> beam.Map(lambda item: json.dumps([*item[0], item[1]]))
        | "WriteCounts" >> beam.io.WriteToText(f"{report_uri}/counts", shard_name_template="")
    )
    _ = (
        outputs.bad
        | "BadToJson" >> beam.Map(json.dumps)
        | "WriteBad" >> beam.io.WriteToText(f"{report_uri}/bad", shard_name_template="")
    )


def _to_shard(
    element: tuple[str, tuple[Position, bytes]], shards: int
) -> tuple[tuple[str, int], tuple[Position, bytes]]:
    split, (position, record) = element
    # A round robin over record numbers gives shards of one size, and the same
    # ones whatever the runner.
    return (split, (position[0] + position[1]) % shards), (position, record)


def shard_count(total_bytes: int) -> int:
    """Files per split for an input of this size; at least 1."""
    return max(1, -(-total_bytes // SHARD_BYTES))


def read_json_lines(path: str, limit: int | None = _MAX_REPORTED) -> list[Any]:
    """The JSON objects of a file that Beam wrote, in sorted order of lines."""
    if not tf.io.gfile.exists(path):
        return []
    with tf.io.gfile.GFile(path) as file:
        lines = sorted(line for line in file.read().splitlines() if line)
    return [json.loads(line) for line in (lines if limit is None else lines[:limit])]

"""Executor of the ExampleGen node."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import tensorflow as tf
from tfx import types
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils

from components.errors import DataError
from components.example_gen import ingest
from components.example_gen.request import Request

Counts = dict[str, dict[str, int]]
"""Split -> label -> number of examples."""


class Executor(base_beam_executor.BaseBeamExecutor):
    """Reads files into splits of Examples; fails on the first bad record."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `component.ExampleGen`.

        Raises:
            DataError: a file or record cannot be used, a split is empty, or
                there are fewer than two classes.
        """
        request = Request.from_json(exec_properties["request"])
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        report = artifact_utils.get_single_instance(output_dict["report"])
        total_bytes = sum(tf.io.gfile.stat(path).length for path in request.files)
        with self._make_beam_pipeline() as pipeline:
            ingest.build(pipeline, request, examples.uri, report.uri, ingest.shard_count(total_bytes))
        raise_on_bad_records(ingest.read_json_lines(f"{report.uri}/bad"))
        counts = nested_counts(ingest.read_json_lines(f"{report.uri}/counts", limit=None))
        check_counts(counts, request)
        _describe(examples, report, request, counts)


def raise_on_bad_records(bad: list[dict[str, Any]]) -> None:
    """Raises a DataError for the first bad record in input order, naming how many there are."""
    if not bad:
        return
    first = min(bad, key=lambda item: tuple(item["position"]))
    more = f" ({len(bad)} bad records or files in all)" if len(bad) > 1 else ""
    raise DataError(first["headline"] + more, place=first["place"], remedy=first["remedy"])


def nested_counts(rows: list[list[Any]]) -> Counts:
    """[split, label, count] rows as nested dictionaries, keys sorted."""
    counts: Counts = defaultdict(dict)
    for split, label, count in sorted(rows):
        counts[split][label] = count
    return dict(counts)


def check_counts(counts: Counts, request: Request) -> None:
    """Raises a DataError where a split is empty or there are fewer than two classes."""
    total = sum(sum(labels.values()) for labels in counts.values())
    place = f"{len(request.files)} files, first {request.files[0]}" if request.files else "no files"
    for split, _ in request.splits:
        if not counts.get(split):
            raise DataError(
                f"The split {split!r} came out empty: {total} examples in all",
                place=place,
                remedy="Add examples, or give the split a larger share (data.splits).",
            )
    labels = sorted({label for split in counts.values() for label in split})
    if len(labels) < 2:
        raise DataError(
            f"There is a single class, {labels[0]!r}: nothing can be told apart",
            place=f"{place}, feature {request.label!r}",
            remedy="Add examples of a second class, or name another label (data.label).",
        )


def _describe(examples: types.Artifact, report: types.Artifact, request: Request, counts: Counts) -> None:
    examples.split_names = artifact_utils.encode_split_names(request.split_names())
    examples_utils.set_payload_format(examples, example_gen_pb2.PayloadFormat.FORMAT_TF_EXAMPLE)
    examples_utils.set_file_format(examples, "tfrecords_gzip")
    sizes = {split: sum(labels.values()) for split, labels in counts.items()}
    examples.set_string_custom_property("examples_per_split", json.dumps(sizes))
    with tf.io.gfile.GFile(f"{report.uri}/report.json", "w") as file:
        json.dump({"files": list(request.files), "counts": counts}, file, indent=1)

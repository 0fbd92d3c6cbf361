"""Readers by format: one source in, batches of numbered records out, and never a silent end.

kinds = column_kinds(request)                  # once, over all files
for batch in open_reader(request, kinds)(source): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from components.example_gen import tables
from components.example_gen.batch import Batch
from components.example_gen.readers import columnar, csv, images, tfrecord
from components.example_gen.request import Request, Source

COLUMNAR: dict[str, columnar.Batches] = {
    "parquet": columnar.parquet_batches,
    "avro": columnar.avro_batches,
    "jsonl": columnar.json_batches,
}
FORMATS = ("tfrecord", "csv", *COLUMNAR, "images")
TEXTUAL = ("text", "string")
"""Kinds of feature rules whose columns are read as bytes."""


def column_kinds(request: Request) -> dict[str, str]:
    """The kind of each column over all files of a table; empty for other formats.

    Raises:
        DataError: a file cannot be read.
    """
    if request.format == "csv":
        found = tables.merge(csv.kinds(source, request) for source in request.sources)
    elif request.format in COLUMNAR:
        batches = COLUMNAR[request.format]
        found = tables.merge(columnar.kinds(batches, source, request) for source in request.sources)
    else:
        return {}
    if request.classes and found.get(request.label) == tables.FLOAT:
        # A class is named as the data names it: 1.0 is no amount there.
        found[request.label] = tables.STRING
    # A text that looks like a number is a text all the same.
    return {**found, **{rule.name: tables.STRING for rule in request.features if rule.kind in TEXTUAL}}


def open_reader(request: Request, kinds: tables.Kinds) -> Callable[[Source], Iterator[Batch]]:
    """The function that reads one source of a request."""
    if request.format == "csv":
        return partial(csv.read, request=request, kinds=kinds)
    if request.format in COLUMNAR:
        return partial(columnar.read, COLUMNAR[request.format], request=request, kinds=kinds)
    if request.format == "images":
        return partial(images.read, request=request)
    return partial(tfrecord.read, request=request)

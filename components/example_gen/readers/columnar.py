"""Parquet, Avro and JSON Lines: files that carry types, or values that do."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from components.errors import DamagedFileError, DataError
from components.example_gen import tables
from components.example_gen.batch import BATCH_RECORDS, Batch, Fault, up_to_damage
from components.example_gen.request import Request, Source

_INT64_MAX = 2**63 - 1

Batches = Callable[[str, Mapping[str, str]], Iterator[tuple[pa.RecordBatch, list[Fault]]]]


def parquet_batches(path: str, options: Mapping[str, str]) -> Iterator[tuple[pa.RecordBatch, list[Fault]]]:
    """The row batches of a Parquet file.

    Raises:
        DataError: the file is damaged or is none.
    """
    try:
        # Where a file has checksums they are looked at: a flipped bit gives other numbers in silence.
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(BATCH_RECORDS):
                yield batch, []
    except (pa.ArrowInvalid, OSError) as error:
        raise _unreadable("Parquet", path, error) from error


def avro_batches(path: str, options: Mapping[str, str]) -> Iterator[tuple[pa.RecordBatch, list[Fault]]]:
    """The records of an Avro file, in batches.

    Raises:
        DataError: the file is damaged or is none.
    """
    rows: list[dict[str, Any]] = []
    try:
        with open(path, "rb") as file:
            for row in fastavro.reader(file):
                rows.append(dict(row))
                if len(rows) == BATCH_RECORDS:
                    yield _from_rows(rows), []
                    rows = []
    except (ValueError, EOFError, OSError, KeyError, IndexError, zlib.error) as error:
        if rows:  # read before the damage
            yield _from_rows(rows), []
        raise _unreadable("Avro", path, error) from error
    if rows:
        yield _from_rows(rows), []


def json_batches(path: str, options: Mapping[str, str]) -> Iterator[tuple[pa.RecordBatch, list[Fault]]]:
    """The objects of a JSON Lines file, in batches; lines that are none are faults."""
    rows: list[dict[str, Any]] = []
    bad: list[Fault] = []
    for number, line in enumerate(_lines(path, options.get("encoding", "utf-8"))):
        row = _json_object(line, options.get("encoding", "utf-8"))
        if isinstance(row, str):
            bad.append(Fault(number, row, line))
            rows.append({})
        else:
            rows.append(row)
        if len(rows) == BATCH_RECORDS:
            yield _from_rows(rows), bad
            rows, bad = [], []
    if rows:
        yield _from_rows(rows), bad


def _lines(path: str, encoding: str) -> Iterator[bytes]:
    """The lines as bytes; a file in UTF-16 or UTF-32 is cut where its characters say."""
    newline = "\n".encode(encoding)
    if newline == b"\n":
        with open(path, "rb") as file:
            yield from file
        return
    # Of such an encoding the codec may write a mark first, which each line then has, as the whole file had.
    try:
        with open(path, encoding=encoding, newline="\n") as text:
            for line in text:
                yield line.encode(encoding)
    except UnicodeError as error:
        raise _unreadable("JSON Lines", path, error) from error


def _json_object(line: bytes, encoding: str) -> dict[str, Any] | str:
    """The object of one line, or what is wrong with it."""
    try:
        text = line.decode(encoding).removeprefix("\ufeff")
        row = json.loads(text)
    except UnicodeDecodeError:
        return f"a line is no {encoding} text"
    except ValueError:
        return "a line is no JSON"
    if not isinstance(row, dict):
        return "a line should hold one JSON object"
    if "\\u" in text and not _encodable(row):
        return "a text holds half of a character (a surrogate without its other)"
    nested = sorted(name for name, value in row.items() if isinstance(value, dict))
    return f"the value of {nested[0]!r} is an object; expected a number, a text or a list" if nested else row


def _encodable(row: dict[str, Any]) -> bool:
    """JSON may name a surrogate alone, which is no text that can be written."""
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _from_rows(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Rows whose values may differ in type between lines: each column takes the widest."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.RecordBatch.from_arrays([_column([row.get(name) for row in rows]) for name in names], names)


def _column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        present = [value for value in values if value is not None]
        if all(isinstance(value, int | float) for value in present):
            return pa.array([None if value is None else _as_float(value) for value in values], pa.float64())
        return pa.array([None if value is None else str(value) for value in values])


def _as_float(value: float) -> float:
    """JSON knows no largest number; what is beyond a float's range is infinite, as 1e999 is."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def kinds(batches: Batches, source: Source, request: Request) -> dict[str, str]:
    """The kind of each column of one file.

    Raises:
        DataError: a column cannot be a feature.
    """
    return tables.merge(
        _batch_kinds(tables.without_missing(batch, request.missing_values), source.path)
        for batch, _ in up_to_damage(batches(source.path, request.options), request)
    )


def _batch_kinds(batch: pa.RecordBatch, path: str) -> dict[str, str]:
    found = {}
    for field in batch.schema:
        if pa.types.is_null(field.type):
            continue
        kind = tables.typed_kind(field.type)
        if kind is None:
            raise DataError(
                f"The column {field.name!r} has the type {field.type}, which no feature can hold",
                place=path,
                remedy="Flatten it to numbers, texts or lists of them.",
            )
        found[field.name] = tables.FLOAT if _beyond_int64(batch.column(field.name)) else kind
    return found


def _beyond_int64(column: pa.Array) -> bool:
    """Whether a column of unsigned integers holds one that no feature holds as an integer."""
    if not pa.types.is_uint64(column.type):
        return False
    return int(pc.max(column).as_py() or 0) > _INT64_MAX


def read(batches: Batches, source: Source, request: Request, kinds: tables.Kinds) -> Iterator[Batch]:
    """Reads one file; rows without a value that they must have are faults."""
    first = 0
    for raw, bad in batches(source.path, request.options):
        batch = tables.without_missing(raw, request.missing_values)
        found = tables.to_examples(batch, kinds, request, first)
        # A line that could not be read stands in the batch as an empty row.
        unread = {fault.number for fault in bad}
        records = tuple(item for item in found.records if item[0] not in unread)
        faults = tuple(fault for fault in found.faults if fault.number not in unread)
        # Where every line is bad there is no column, and so no row either.
        first = max(first + batch.num_rows, *(fault.number + 1 for fault in bad), 0)
        yield Batch(records, (*bad, *faults))


def _unreadable(name: str, path: str, error: Exception) -> DamagedFileError:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DamagedFileError(
        f"A file cannot be read as {name}: {text}", place=path, remedy="Write or copy it again."
    )

"""Arrow tables to tf.train.Examples, with one set of column types for all files.

    kinds = merge(kinds_of(batch) for batch in ...)       # column -> "int" | "float" | "string"
    batch = to_examples(record_batch, kinds, request, first=0)

Integers become int64 lists, floating point numbers float lists, everything
else byte lists; a missing cell becomes a feature without a value, as TFX's own
readers write it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from tfx_bsl.coders import example_coder

from components.example_gen.batch import Batch, Fault
from components.example_gen.request import FeatureRule, Request

INT, FLOAT, STRING = "int", "float", "string"
MISSING_COLUMN = "is missing; columns:"
"""In the reason of a fault that all rows of a table share."""
Kinds = Mapping[str, str]
_ORDER = (INT, FLOAT, STRING)
_ARROW = {INT: pa.int64(), FLOAT: pa.float32(), STRING: pa.large_binary()}


def text_kinds(batch: pa.RecordBatch) -> dict[str, str]:
    """The narrowest kind that holds every value of each column of text; empty columns are left out."""
    found = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if column.null_count < len(column):
            found[name] = _text_kind(column)
    return found


def _text_kind(column: pa.Array) -> str:
    for kind, arrow in ((INT, pa.int64()), (FLOAT, pa.float64())):
        try:
            pc.cast(column, arrow)
        except pa.ArrowInvalid:
            continue
        return kind
    return STRING


def typed_kind(arrow: pa.DataType) -> str | None:
    """The kind of a typed column, or None where it cannot be a feature."""
    if _is_list(arrow):
        return None if _is_list(arrow.value_type) else typed_kind(arrow.value_type)
    if pa.types.is_integer(arrow) or pa.types.is_boolean(arrow) or pa.types.is_timestamp(arrow):
        return INT
    if pa.types.is_floating(arrow) or pa.types.is_decimal(arrow):
        return FLOAT
    textual = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    if any(test(arrow) for test in textual) or pa.types.is_date(arrow) or pa.types.is_dictionary(arrow):
        return STRING
    return None


def _is_list(arrow: pa.DataType) -> bool:
    return pa.types.is_list(arrow) or pa.types.is_large_list(arrow)


def merge(found: Iterable[Kinds]) -> dict[str, str]:
    """The widest kind of each column over several batches or files."""
    merged: dict[str, str] = {}
    for kinds in found:
        for name, kind in kinds.items():
            merged[name] = max(merged.get(name, INT), kind, key=_ORDER.index)
    return merged


def without_missing(batch: pa.RecordBatch, missing_values: Sequence[str]) -> pa.RecordBatch:
    """The batch with those texts as missing cells; numbers are left as they are."""
    if not missing_values:
        return batch
    columns = [_without(column, missing_values) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _without(column: pa.Array, missing_values: Sequence[str]) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    stands_for_none = pc.is_in(column, value_set=pa.array(missing_values, column.type))
    return pc.if_else(stands_for_none, pa.scalar(None, column.type), column)


def to_examples(batch: pa.RecordBatch, kinds: Kinds, request: Request, first: int) -> Batch:
    """Converts rows; those that break a rule are faults.

    Args:
        batch: columns of text or typed columns.
        kinds: of each column, over all files; columns without one are text.
        request: features that must have one value, and columns to leave out.
        first: number of the first row in its file.
    """
    names = [name for name in batch.schema.names if name not in request.exclude]
    lists = [_as_lists(batch.column(name), kinds.get(name, STRING)) for name in names]
    encoded = _encode(pa.RecordBatch.from_arrays(lists, names))
    reasons = row_faults(batch, request.features)
    good = tuple((first + row, record) for row, record in enumerate(encoded) if row not in reasons)
    faults = tuple(Fault(first + row, reason, encoded[row]) for row, reason in sorted(reasons.items()))
    return Batch(good, faults)


def _encode(lists: pa.RecordBatch) -> list[bytes]:
    """Rows as serialized Examples, features in the order of their names.

    tfx_bsl writes them in an order that differs from process to process; a
    record's bytes are what it is split by.
    """
    encoded = example_coder.RecordBatchToExamples(lists)
    return [tf.train.Example.FromString(record).SerializeToString(deterministic=True) for record in encoded]


def row_faults(batch: pa.RecordBatch, rules: Sequence[FeatureRule]) -> dict[int, str]:
    """Row -> why it cannot be used, for rows in which a ruled column has no value, or not one."""
    reasons: dict[int, str] = {}
    for rule in rules:
        index = batch.schema.get_field_index(rule.name)
        if index < 0:
            columns = ", ".join(batch.schema.names)
            reason = f"column {rule.name!r} {MISSING_COLUMN} {columns}"
            return dict.fromkeys(range(batch.num_rows), reason)
        column = batch.column(index)
        for row in _rows(column.is_null()):
            reasons.setdefault(row, f"column {rule.name!r} has no value")
        if _is_list(column.type):
            for row in _rows(pc.not_equal(pc.list_value_length(column), 1)):
                reasons.setdefault(row, f"column {rule.name!r} should hold one value, not a list")
        elif not pa.types.is_null(column.type) and (rule.kind == "text" or _is_bytes(column.type)):
            readable, undecodable = _decoded(column)
            for row in undecodable:
                reasons.setdefault(row, f"column {rule.name!r} is no UTF-8 text")
            for row in _rows(_blank(readable)) if rule.kind == "text" else ():
                reasons.setdefault(row, f"column {rule.name!r} is blank")
    return reasons


def _rows(chosen: pa.BooleanArray) -> list[int]:
    return [int(row) for row in np.flatnonzero(chosen.fill_null(False).to_numpy(zero_copy_only=False))]


def _decoded(column: pa.Array) -> tuple[pa.Array, list[int]]:
    """The column as text, and the rows whose bytes are none, which are missing in it."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return column.cast(pa.large_string()), []
    except pa.ArrowInvalid:
        texts = [None if cell is None else cell.decode(errors="replace") for cell in column.to_pylist()]
        cells = zip(column.to_pylist(), texts, strict=True)
        bad = [row for row, (cell, text) in enumerate(cells) if text is not None and text.encode() != cell]
        return pa.array(texts, pa.large_string()), bad


def _blank(texts: pa.Array) -> pa.BooleanArray:
    return pc.equal(pc.utf8_trim_whitespace(texts), "")


def _as_lists(column: pa.Array, kind: str) -> pa.Array:
    """A column of single values (or lists) as the lists that Examples hold."""
    if _is_list(column.type):
        if kind == STRING and not _is_bytes(column.type.value_type):
            column = column.cast(pa.large_list(pa.large_string()))
        return column.cast(pa.large_list(_ARROW[kind]))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(valid)]).astype(np.int64)
    values = _cast(column.drop_null(), kind)
    return pa.LargeListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~valid))


def _cast(values: pa.Array, kind: str) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_timestamp(values.type):
        # Seconds since the epoch: what a time feature can be computed with.
        values = pc.divide(values.cast(pa.timestamp("us"), safe=False).cast(pa.int64()), 1_000_000)
    if kind == FLOAT and (pa.types.is_string(values.type) or pa.types.is_decimal(values.type)):
        values = values.cast(pa.float64())
    if kind == STRING and not _is_bytes(values.type):
        values = values.cast(pa.string())
    return values.cast(_ARROW[kind], safe=False)


def _is_bytes(arrow: pa.DataType) -> bool:
    return pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow)

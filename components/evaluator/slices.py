"""Slices of many examples at once: which rows belong to which slice.

columns = {"day": Column(rows, values)}
for members in slices_of([("day",), ()], columns, count):
    members.keys[code], members.rows, members.codes
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

Value = str | int | float
SliceKey = tuple[tuple[str, Value], ...]
"""As TFMA has it: sorted (feature, value) pairs; empty for all examples."""


@dataclass(frozen=True)
class Column:
    """A feature of many examples, each with any number of values.

    Attributes:
        rows: (V,) int64, ascending: to which example a value belongs.
        codes: (V,) int64: index into `values`.
        values: the distinct values.
    """

    rows: np.ndarray
    codes: np.ndarray
    values: Sequence[Value]

    @classmethod
    def of(cls, parts: Sequence[pa.Array | None], sizes: Sequence[int]) -> Column:
        """From list arrays of consecutive batches; None where a batch lacks the feature."""
        rows, flat, start = [], [], 0
        for part, size in zip(parts, sizes, strict=True):
            if part is not None and not pa.types.is_null(part.type):
                filled = part.fill_null([]) if part.null_count else part
                rows.append(start + np.asarray(filled.value_parent_indices()))
                flat.append(filled.flatten())
            start += size
        if not flat:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), [])
        encoded = pa.chunked_array(flat).combine_chunks().dictionary_encode()
        values = [_plain(value) for value in encoded.dictionary.to_pylist()]
        return cls(np.concatenate(rows), np.asarray(encoded.indices, np.int64), values)

    def first_of(self, count: int) -> np.ndarray:
        """(count,) int64: code of each example's first value; -1 for none."""
        found = np.full(count, -1, np.int64)
        # Backwards, so that of several values the first is written last.
        found[self.rows[::-1]] = self.codes[::-1]
        return found


def _plain(value: Any) -> Value:
    return value.decode() if isinstance(value, bytes) else value


@dataclass(frozen=True)
class Members:
    """The slices of one specification.

    Attributes:
        keys: one key a slice.
        rows: (M,) int64: examples, each as often as it is in a slice.
        codes: (M,) int64: index into `keys`.
    """

    keys: Sequence[SliceKey]
    rows: np.ndarray
    codes: np.ndarray


def slices_of(specs: Sequence[Sequence[str]], columns: Mapping[str, Column], count: int) -> Iterator[Members]:
    """The slices that each specification makes of examples 0 to count - 1.

    Args:
        specs: names of features each; none for all examples. An example is in a
            slice for each combination of its values, and in none where it lacks one.
        columns: the features.
        count: of examples.
    """
    for spec in specs:
        yield _members(sorted(spec), columns, count)


def _members(spec: Sequence[str], columns: Mapping[str, Column], count: int) -> Members:
    rows, codes = np.arange(count), np.zeros(count, np.int64)
    keys: list[SliceKey] = [()]
    for name in spec:
        column = columns[name]
        rows, left, right = _join(rows, codes, column, count)
        codes = left * len(column.values) + right
        keys = [(*key, (name, value)) for key, value in itertools.product(keys, column.values)]
    used, compact = np.unique(codes, return_inverse=True)
    return Members([keys[code] for code in used], rows, compact)


def _join(
    rows: np.ndarray, codes: np.ndarray, column: Column, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each member with each value of its example: rows, codes so far, codes of the value."""
    starts = np.searchsorted(column.rows, np.arange(count + 1))
    times = (starts[1:] - starts[:-1])[rows]
    first = np.repeat(starts[rows], times)
    offset = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    return np.repeat(rows, times), np.repeat(codes, times), column.codes[first + offset]

"""Files to what a signature takes, in batches, with what cannot be used told apart.

for batch in open_reader("texts", column="text")(path):
    batch.items, batch.faults
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from components.bulk.inputs import Kind
from components.errors import DataError
from components.example_gen import check
from components.example_gen.batch import Fault
from components.example_gen.readers import images, tfrecord
from components.serving import pairs

BATCH = 64
Item = tuple[int, bytes]
"""Number in the file, from 0, and what is sent."""


@dataclass(frozen=True)
class Batch:
    """Up to 64 items of a file, in file order, and records that cannot be used."""

    items: tuple[Item, ...]
    faults: tuple[Fault, ...] = ()


Reader = Callable[[Path], Iterator[Batch]]


def open_reader(kind: Kind, column: str = "", pair_column: str = "") -> Reader:
    """The reader of a kind of file; `column` is the one with the text, `pair_column` with a pair's second."""
    readers: dict[Kind, Reader] = {
        "images": _images,
        "texts": partial(_texts, column=column, pair_column=pair_column),
        "examples": _examples,
    }
    return readers[kind]


def _images(path: Path) -> Iterator[Batch]:
    data = path.read_bytes()
    try:
        *_, encoded = images.inspect(data)
    except ValueError as error:
        yield Batch((), (Fault(0, str(error), data),))
    else:
        yield Batch(((0, encoded),))


def _examples(path: Path) -> Iterator[Batch]:
    yield from _batched(_checked_examples(path))


def _checked_examples(path: Path) -> Iterator[Item | Fault]:
    for number, record in tfrecord.numbered_records(str(path)):
        reason = check.fault(record, ())
        yield (number, record) if reason is None else Fault(number, reason, record)


def _texts(path: Path, column: str, pair_column: str) -> Iterator[Batch]:
    yield from _batched(_cells(path, column, pair_column))


def _cells(path: Path, column: str, pair_column: str) -> Iterator[Item | Fault]:
    """The text of each row; a row with another number of cells than the header is a fault."""
    number = 0
    try:
        with open(path, "rb") as file:
            # Line by line, so that what comes before a line of another encoding is read.
            lines = (line.decode("utf-8-sig" if first else "utf-8") for first, line in _marked(file))
            rows = csv.reader(lines, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", strict=True)
            header = next(rows, [])
            index = _column_index(header, column, path)
            second = _column_index(header, pair_column, path) if pair_column else None
            for number, row in enumerate(rows):
                if len(row) != len(header):
                    reason = f"a row should have {len(header)} cells; received {len(row)}"
                    yield Fault(number, reason, "\t".join(row).encode())
                else:
                    text = row[index] if second is None else pairs.joined(row[index], row[second])
                    yield number, text.encode()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"A CSV file cannot be read: {error}",
            place=f"{path}, after record {number}",
            remedy="It should be UTF-8, with a header and quotes that close.",
        ) from error


def _marked(lines: Iterable[bytes]) -> Iterator[tuple[bool, bytes]]:
    """Each line, and whether it is the first, which may begin with a byte order mark."""
    return ((number == 0, line) for number, line in enumerate(lines))


def _column_index(header: list[str], column: str, path: Path) -> int:
    wanted = column or (header[0] if len(header) == 1 else "text")
    if wanted not in header:
        raise DataError(
            f"There is no column {wanted!r}",
            place=str(path),
            remedy=f"Name one with --column, or a pair's second with --pair-column: {', '.join(header)}.",
        )
    return header.index(wanted)


def _batched(found: Iterator[Item | Fault]) -> Iterator[Batch]:
    items: list[Item] = []
    faults: list[Fault] = []
    try:
        for one in found:
            if isinstance(one, Fault):
                faults.append(one)
            else:
                items.append(one)
            if len(items) == BATCH or len(faults) == BATCH:
                yield Batch(tuple(items), tuple(faults))
                items, faults = [], []
    except DataError:
        # What was read before the damage is sound, and is not lost with it.
        yield Batch(tuple(items), tuple(faults))
        raise
    if items or faults:
        yield Batch(tuple(items), tuple(faults))

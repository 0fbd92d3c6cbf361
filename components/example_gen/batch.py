"""What a reader yields: records with their numbers, and what was wrong with the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from components.errors import DamagedFileError, DataError
from components.example_gen.request import Request

_T = TypeVar("_T")

BATCH_RECORDS = 1024


@dataclass(frozen=True)
class Fault:
    """A record that cannot be used.

    Attributes:
        number: of the record in its file, from 0.
        reason: one sentence without a full stop.
        raw: the record as it was read, for quarantine.
    """

    number: int
    reason: str
    raw: bytes


@dataclass(frozen=True)
class Batch:
    """Some records of one file, in file order.

    Attributes:
        records: (number in the file, serialized tf.train.Example).
        faults: those that cannot be used.
        content: the whole file as it was read, where the reader reads it at once.
    """

    records: tuple[tuple[int, bytes], ...]
    faults: tuple[Fault, ...] = ()
    content: bytes | None = None


def chunks(numbered: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, list[bytes]]]:
    """Groups numbered records: (number of the first, records)."""
    first = 0
    records: list[bytes] = []
    try:
        for number, record in numbered:
            if not records:
                first = number
            records.append(record)
            if len(records) == BATCH_RECORDS:
                yield first, records
                records = []
    except DataError:
        # What was read before the damage is sound, and is not lost with it.
        if records:
            yield first, records
        raise
    if records:
        yield first, records


def up_to_damage(batches: Iterator[_T], request: Request) -> Iterator[_T]:
    """Batches of a look ahead; damage ends it where what is damaged is put aside later on."""
    try:
        yield from batches
    except DamagedFileError:
        if request.on_bad_record == "fail":
            raise

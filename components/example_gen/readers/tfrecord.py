"""TFRecord files of tf.train.Examples: plain or gzipped, whatever they are called."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from typing import IO, cast

import google_crc32c

from components.errors import DamagedFileError, DataError
from components.example_gen import check
from components.example_gen.batch import Batch, Fault, chunks
from components.example_gen.request import Request, Source

_GZIP_MAGIC = b"\x1f\x8b"
MAX_RECORD_BYTES = 512 << 20
"""A longer record is refused before it is read: gzip makes a small file of a huge one."""

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")


def read(source: Source, request: Request) -> Iterator[Batch]:
    """Reads one file; records that break a rule are faults."""
    for first, records in chunks(numbered_records(source.path)):
        reasons = [check.fault(record, request.features) for record in records]
        good = tuple(
            (first + offset, check.without(record, request.exclude))
            for offset, (record, reason) in enumerate(zip(records, reasons, strict=True))
            if reason is None
        )
        faults = tuple(
            Fault(first + offset, reason, record)
            for offset, (record, reason) in enumerate(zip(records, reasons, strict=True))
            if reason is not None
        )
        yield Batch(good, faults)


def numbered_records(path: str) -> Iterator[tuple[int, bytes]]:
    """Yields (number from 0, serialized record) of a plain or gzipped TFRecord file.

    TensorFlow's own reader takes a file that is cut inside a record's head for
    one that ends there; here that is an error like any other cut.

    Raises:
        DataError: the file cannot be opened, is cut off, or a checksum differs.
    """
    number = at = 0
    try:
        with _open(path) as file:
            while (record := _next_record(file)) is not None:
                at = _place(file)
                yield number, record
                number += 1
    except (_DamagedError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedFileError(
            f"A TFRecord file is damaged: {str(error).lower()}",
            place=f"{path}, record {number}",
            remedy="Write or copy the file again; the records before this one are sound.",
            at_byte=at,
        ) from error
    except OSError as error:
        raise DataError(
            f"A file cannot be read: {error.strerror or error}",
            place=path,
            remedy="Check the path and its permissions.",
        ) from error


class _DamagedError(Exception):
    """A TFRecord file that is not what its own lengths and checksums say."""


def _open(path: str) -> IO[bytes]:
    with open(path, "rb") as file:
        zipped = file.read(2) == _GZIP_MAGIC
    return cast(IO[bytes], gzip.open(path)) if zipped else open(path, "rb")


def _place(file: IO[bytes]) -> int:
    """Bytes of the file itself that were read, whether or not it is compressed."""
    return file.fileobj.tell() if isinstance(file, gzip.GzipFile) else file.tell()


def _next_record(file: IO[bytes]) -> bytes | None:
    """The next record, or None at the file's end.

    The layout is TensorFlow's: length (8 bytes), its checksum (4), the record,
    its checksum (4); checksums are masked CRC-32C.
    """
    head = file.read(_HEAD.size)
    if not head:
        return None
    if len(head) < _HEAD.size:
        raise _DamagedError("it is cut off in the head of a record")
    length, checksum = _HEAD.unpack(head)
    if _masked_crc(head[:8]) != checksum:
        raise _DamagedError("the checksum of a record's length differs")
    if length > MAX_RECORD_BYTES:
        raise _DamagedError(f"a record has {length:,} bytes; at most {MAX_RECORD_BYTES:,}")
    body = file.read(length + _TAIL.size)
    if len(body) < length + _TAIL.size:
        raise _DamagedError("it is cut off in a record")
    record = body[:length]
    if _masked_crc(record) != _TAIL.unpack(body[length:])[0]:
        raise _DamagedError("the checksum of a record differs")
    return record


def _masked_crc(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

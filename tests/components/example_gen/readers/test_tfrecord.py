"""Reading TFRecords: plain, gzipped, damaged."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from components.errors import DataError
from components.example_gen.readers.tfrecord import MAX_RECORD_BYTES, _masked_crc, numbered_records

RECORDS = [b"one", b"two" * 100, b"", b"four"]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_come_numbered_whatever_the_compression(tmp_path, write_tfrecord, compression) -> None:
    path = write_tfrecord(tmp_path / "a.records", RECORDS, compression)
    assert list(numbered_records(str(path))) == list(enumerate(RECORDS))


def test_an_empty_file_has_no_records(tmp_path) -> None:
    path = tmp_path / "empty.tfrecord"
    path.touch()
    assert list(numbered_records(str(path))) == []


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_cut_anywhere_is_an_error_with_the_record(tmp_path, write_tfrecord, cut: int) -> None:
    path = write_tfrecord(tmp_path / "a.tfrecord", RECORDS)
    whole = path.read_bytes()
    ends = [0]
    for record in RECORDS:
        ends.append(ends[-1] + 16 + len(record))
    at = len(whole) - cut
    path.write_bytes(whole[:at])
    if at in ends:
        assert len(list(numbered_records(str(path)))) == ends.index(at)
        return
    with pytest.raises(DataError) as caught:
        list(numbered_records(str(path)))
    complete = max(number for number, end in enumerate(ends) if end <= at)
    assert caught.value.place == f"{path}, record {complete}"


def test_a_record_that_unpacks_to_too_much_is_not_read(tmp_path) -> None:
    head = struct.pack("<Q", MAX_RECORD_BYTES + 1)
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(gzip.compress(head + struct.pack("<I", _masked_crc(head)) + b"\0" * 1000))
    with pytest.raises(DataError, match="a record has 536,870,913 bytes; at most 536,870,912"):
        list(numbered_records(str(path)))


def test_a_missing_file(tmp_path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        list(numbered_records(str(tmp_path / "none")))


SHARED = Path(__file__).parents[4].parent / "shared" / "data" / "tfrecords"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the sample TFRecords are not on this machine")
def test_plain_and_gzipped_samples_hold_the_same_records() -> None:
    """Toy files of another project: the same records, plain and gzipped, with ragged and missing values."""
    by_kind: dict[bool, list[bytes]] = {True: [], False: []}
    for path in sorted(SHARED.iterdir()):
        if path.is_file() and path.suffix not in (".md", ".txt"):
            zipped = path.read_bytes()[:2] == b"\x1f\x8b"
            by_kind[zipped] += [record for _, record in numbered_records(str(path))]
    assert by_kind[True] and by_kind[False]
    assert set(by_kind[True]) & set(by_kind[False])

"""Reading TFRecords: plain, gzipped, damaged."""

from __future__ import annotations

import pytest

from components.errors import DataError
from components.example_gen.read import read_tfrecord

RECORDS = [b"one", b"two" * 100, b"", b"four"]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_records_come_numbered_whatever_the_compression(tmp_path, write_tfrecord, compression) -> None:
    path = write_tfrecord(tmp_path / "a.records", RECORDS, compression)
    assert list(read_tfrecord(str(path))) == list(enumerate(RECORDS))


def test_an_empty_file_has_no_records(tmp_path) -> None:
    path = tmp_path / "empty.tfrecord"
    path.touch()
    assert list(read_tfrecord(str(path))) == []


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
        assert len(list(read_tfrecord(str(path)))) == ends.index(at)
        return
    with pytest.raises(DataError) as caught:
        list(read_tfrecord(str(path)))
    complete = max(number for number, end in enumerate(ends) if end <= at)
    assert caught.value.place == f"{path}, record {complete}"


def test_a_missing_file(tmp_path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        list(read_tfrecord(str(tmp_path / "none")))

"""The digits' files, where two runs write them at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.datasets import digits


def test_of_two_runs_that_write_the_files_at_once_the_quicker_one_s_stay(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "data" / "digits"
    quicker = iter([True])

    def records() -> Iterator[bytes]:
        if next(quicker, False):
            digits.write(folder)
        yield from (b"one", b"two")

    monkeypatch.setattr(digits, "_records", records)
    assert digits.write(folder) == folder
    assert len(list(folder.glob("*.tfrecord"))) == digits.SHARDS
    assert [path.name for path in folder.parent.iterdir()] == ["digits"]
    # What is no copy of them is not taken for one.
    (folder / digits._DONE).unlink()
    with pytest.raises(OSError, match="not empty"):
        digits.write(folder)

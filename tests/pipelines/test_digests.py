"""Remembered digests: never wrong, and nothing is read twice."""

from __future__ import annotations

import hashlib
import os
import random
import sqlite3
from pathlib import Path

import pytest

from pipelines import digests


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Remembers in a folder of its own, and takes every time stamp for settled."""
    monkeypatch.setattr(digests, "_file", None)
    monkeypatch.setattr(digests, "_RACY_NS", -1)
    digests.remember_in(tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def reads(work) -> int:
    """Bytes that are read meanwhile."""
    before = digests.read_bytes
    work()
    return digests.read_bytes - before


def plain(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_untouched_file_is_read_once(folder) -> None:
    file = folder / "a"
    file.write_bytes(b"x" * 1000)
    assert reads(lambda: digests.of_file(file)) == 1000
    assert reads(lambda: digests.of_file(file)) == 0
    assert digests.of_file(file) == plain(file)


def test_a_touched_file_is_read_again_and_is_the_same(folder) -> None:
    file = folder / "a"
    file.write_bytes(b"abc")
    before = digests.of_file(file)
    os.utime(file)
    assert reads(lambda: digests.of_file(file)) == 3
    assert digests.of_file(file) == before


def test_an_edit_with_its_time_stamp_put_back_is_seen(folder) -> None:
    """The time of change cannot be put back."""
    file = folder / "a"
    file.write_bytes(b"abc")
    digests.of_file(file)
    stat = file.stat()
    file.write_bytes(b"abd")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert digests.of_file(file) == plain(file)


def test_a_file_that_was_only_just_changed_is_not_remembered(folder, monkeypatch) -> None:
    monkeypatch.setattr(digests, "_RACY_NS", 10**12)
    file = folder / "a"
    file.write_bytes(b"abc")
    assert [reads(lambda: digests.of_file(file)) for _ in range(2)] == [3, 3]


def test_a_tree_changes_with_names_and_contents(folder) -> None:
    for name in ("a", "b"):
        (folder / name).write_text(name)
    seen = {digests.of_tree(folder)}
    (folder / "b").rename(folder / "c")
    seen.add(digests.of_tree(folder))
    (folder / "c").write_text("")
    seen.add(digests.of_tree(folder))
    (folder / "sub").mkdir()
    (folder / "sub" / "d").write_text("d")
    seen.add(digests.of_tree(folder))
    assert len(seen) == 4
    with pytest.raises(FileNotFoundError):
        digests.of_tree(folder / "nowhere")


@pytest.mark.parametrize("harm", ["no database", "locked"])
def test_without_its_memory_it_reads(folder, harm: str, monkeypatch) -> None:
    file = folder / "a"
    file.write_bytes(b"abc")
    memory = folder.parent / "digests.db"
    if harm == "no database":
        memory.write_bytes(b"rubbish" * 100)
    else:
        digests.of_file(file)
        monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: (_ for _ in ()).throw(sqlite3.Error()))
    assert digests.of_file(file) == plain(file)


def test_random_edits_are_all_seen(folder) -> None:
    """1,000 seeded edits of 20 files by six ways; the digests are always those of the bytes."""
    rng = random.Random(5)
    files = [folder / str(number) for number in range(20)]
    for file in files:
        file.write_bytes(rng.randbytes(50))
    for _ in range(1000):
        file = rng.choice(files)
        data = bytearray(file.read_bytes() or b"0")
        stat = file.stat()
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        match rng.randrange(6):
            case 0:
                file.write_bytes(data)
            case 1:
                with open(file, "r+b") as opened:
                    opened.write(data[:1])
            case 2:
                other = folder / "new"
                other.write_bytes(data)
                other.rename(file)
            case 3:
                os.truncate(file, rng.randrange(60))
            case 4:
                os.utime(file)
            case 5:
                file.write_bytes(data)
                os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        assert digests.of_file(file) == plain(file)

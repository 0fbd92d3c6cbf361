"""What a killed writer left in a record's file is put right by whoever reads it next."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pipelines import backups, doctor
from pipelines.lineage import reading

ROWS = 2_000


def cut_short(path: Path) -> None:
    """A writer of a process of its own is killed with half of its transaction in the file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE Execution (name TEXT)")
        connection.executemany("INSERT INTO Execution VALUES (?)", [("kept" * 20,)] * ROWS)
    pid = os.fork()
    if not pid:
        writing = sqlite3.connect(path, isolation_level=None)
        writing.execute("PRAGMA cache_size = 1")  # so that changed pages go to the file before the commit
        writing.execute("BEGIN IMMEDIATE")
        writing.execute("UPDATE Execution SET name = 'lost' || name")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    assert Path(f"{path}-journal").stat().st_size > 0


@pytest.fixture
def record(tmp_path: Path) -> Path:
    cut_short(tmp_path / "metadata.db")
    return tmp_path / "metadata.db"


def test_a_plain_reader_could_not(record: Path) -> None:
    with (
        closing(sqlite3.connect(f"file:{record}?mode=ro", uri=True)) as plain,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        plain.execute("SELECT COUNT(*) FROM Execution").fetchone()


def test_the_last_whole_commit_is_read(record: Path) -> None:
    with closing(reading.connect(record)) as connection:
        names = connection.execute("SELECT DISTINCT name FROM Execution").fetchall()
        assert names == [("kept" * 20,)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM Execution")


def test_it_is_no_damage(record: Path) -> None:
    backups.check(record)
    assert not Path(f"{record}-journal").exists()


def test_the_doctor_sees_no_damage(record: Path) -> None:
    assert doctor._metadata(record.parent).state == "ok"

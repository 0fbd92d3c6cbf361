"""Connections to a record in a SQLite file that only read.

A writer that was killed inside a commit leaves a journal behind, from which
SQLite puts the file back as it was before; a connection that may not write
cannot do that, and fails with "attempt to write a readonly database".
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_LOOK = "SELECT COUNT(*) FROM sqlite_master"


def connect(path: Path, timeout: float = 5.0) -> sqlite3.Connection:
    """A connection that only reads, to a file that is as of its last whole commit.

    Args:
        path: the SQLite file.
        timeout: seconds to wait for a writer that is at work.

    Raises:
        sqlite3.Error: it is no database, or cannot be read.
    """
    connection = _open(path, "ro", timeout)
    try:
        connection.execute(_LOOK).fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
        with closing(_open(path, "rw", timeout)) as writing:
            writing.execute(_LOOK).fetchone()
        return _open(path, "ro", timeout)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _open(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True, timeout=timeout)

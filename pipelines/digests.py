"""Digests of files, remembered: a file that nobody touched is not read again.

    digests.remember_in(workspace.root)
    digests.of_file(path)               # SHA-256 of its bytes, in hex
    digests.of_tree(folder)             # of all names and bytes below

A remembered digest counts only while the file's device, inode, size, time of
change and time of modification are what they were, to the nanosecond. The time
of change (ctime) is set by the kernel at every write, rename, link and
`touch`, and no program can set it; so a file that was altered and given its
old time stamp back is read again. One that was changed so shortly before it
was read that a later change could bear the same time is not remembered.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

_RACY_NS = 2_000_000_000
"""Time stamps of file systems are as coarse as this, at worst."""

_SCHEMA = "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, stat TEXT NOT NULL, sha256 TEXT NOT NULL)"
_file: Path | None = None
read_bytes = 0
"""How much this process has read for digests."""


def remember_in(folder: Path) -> None:
    """Digests are from now on remembered in `digests.db` there."""
    global _file
    _file = folder / "digests.db"


def of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex.

    Raises:
        OSError: it cannot be read.
    """
    return of_files([path])[0]


def of_files(paths: list[Path]) -> list[str]:
    """SHA-256 of the bytes of several files.

    Raises:
        OSError: one cannot be read.
    """
    with _remembered() as connection:
        return [_digest(path, connection) for path in paths]


def of_tree(folder: Path) -> str:
    """SHA-256 over the relative names and the contents of all files below a folder, or of a file.

    Empty folders do not count; links count as what they lead to.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    if folder.is_file():
        return of_file(folder)
    paths = sorted(Path(parent, name) for parent, _, names in _walk(folder) for name in names)
    total = hashlib.sha256()
    for path, digest in zip(paths, of_files(paths), strict=True):
        total.update(f"{path.relative_to(folder)}\0{digest}\n".encode())
    return total.hexdigest()


def _walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    def fail(error: OSError) -> None:
        raise error

    return os.walk(folder, onerror=fail, followlinks=True)


def _digest(path: Path, connection: sqlite3.Connection | None) -> str:
    name = str(path.absolute())
    stat = _stat(path)
    found = _look_up(connection, name, stat)
    if found is not None:
        return found
    digest = _read(path)
    # Read while it was being written: what was read is told, and not remembered.
    if _stat(path) == stat and _settled(path):
        _remember(connection, name, stat, digest)
    return digest


def _read(path: Path) -> str:
    global read_bytes
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        read_bytes += file.tell()
    return digest


def _stat(path: Path) -> str:
    found = path.stat()
    return f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _settled(path: Path) -> bool:
    """Whether any later change must get a later time; not so for times in the future."""
    return time.time_ns() - path.stat().st_ctime_ns > _RACY_NS


@contextlib.contextmanager
def _remembered() -> Iterator[sqlite3.Connection | None]:
    """The file of remembered digests; None where there is none, or it cannot be used."""
    connection = None
    if _file is not None:
        with contextlib.suppress(sqlite3.Error):
            connection = sqlite3.connect(_file, timeout=10, isolation_level=None)
            # A lost digest is found again, so the disk need not be waited for.
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(_SCHEMA)
    try:
        yield connection
    finally:
        if connection is not None:
            connection.close()


def _look_up(connection: sqlite3.Connection | None, name: str, stat: str) -> str | None:
    if connection is None:
        return None
    with contextlib.suppress(sqlite3.Error):
        row = connection.execute("SELECT stat, sha256 FROM files WHERE path = ?", (name,)).fetchone()
        if row and row[0] == stat:
            return str(row[1])
    return None


def _remember(connection: sqlite3.Connection | None, name: str, stat: str, digest: str) -> None:
    if connection is not None:
        with contextlib.suppress(sqlite3.Error):  # a full disk, a read-only workspace
            connection.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (name, stat, digest))

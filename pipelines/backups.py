"""Copies of a workspace's record, for the day when it is damaged.

    backups.keep(workspace.database.path, time.time())     # after a run
    backups.check(workspace.database.path)                 # before one

A copy is made when a run has executed something; the latest KEPT stay, in
`backups/` beside the record. They are ordinary copies: putting one back is
copying it over `metadata.db`.
"""

from __future__ import annotations

import contextlib
import shlex
import sqlite3
import tempfile
from contextlib import closing
from datetime import datetime
from pathlib import Path

from pipelines.errors import WorkspaceError
from pipelines.lineage import reading
from pipelines.lineage.locking import exclusive

KEPT = 3
_FOLDER = "backups"
_READ_THROUGH = 64 << 20
"""Larger records are not checked as a whole: that would take seconds."""


def keep(path: Path, now: float) -> Path | None:
    """Copies a sound record; None where it could not, such as on a full disk.

    Args:
        path: the SQLite file.
        now: seconds since the epoch, for the copy's name.
    """
    folder = path.parent / _FOLDER
    target = folder / f"metadata-{datetime.fromtimestamp(now):%Y%m%d-%H%M%S-%f}.db"
    with contextlib.suppress(OSError, sqlite3.Error):
        folder.mkdir(exist_ok=True)
        copy(path, target)
        # By the order in which they were made, whatever the clock said meanwhile.
        for old in sorted(folder.glob("metadata-*.db"), key=lambda file: file.stat().st_ctime_ns)[:-KEPT]:
            old.unlink(missing_ok=True)
        return target
    return None


def copy(path: Path, target: Path) -> None:
    """A consistent copy under the workspace's lock; whole or not there at all.

    Raises:
        OSError, sqlite3.Error: it could not be made.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        made = Path(scratch, "copy.db")
        with exclusive(path), closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(made)) as to:
            source.backup(to)
        made.rename(target)


def check(path: Path) -> None:
    """That the record is a sound SQLite file, or not there yet.

    Raises:
        WorkspaceError: it is damaged; the remedy names the latest sound copy.
    """
    if not path.exists() or not path.stat().st_size:
        return
    with exclusive(path):
        fault = _fault(path)
    if fault:
        raise WorkspaceError(f"The metadata store is damaged: {fault}", place=str(path), remedy=_remedy(path))


def _fault(path: Path) -> str:
    """What is wrong with a SQLite file; empty where nothing is, or it is too large to be read through."""
    try:
        if path.stat().st_size > _READ_THROUGH:
            return ""
        with closing(reading.connect(path, timeout=10)) as connection:
            answer = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            return "" if answer == "ok" else str(answer).splitlines()[-1]
    except sqlite3.DatabaseError as error:
        return str(error)


def latest_sound(path: Path) -> Path | None:
    """The latest copy that is sound itself."""
    copies = (path.parent / _FOLDER).glob("metadata-*.db")
    for file in sorted(copies, key=lambda file: file.stat().st_ctime_ns, reverse=True):
        if not _fault(file):
            return file
    return None


def _remedy(path: Path) -> str:
    found = latest_sound(path)
    if found is None:
        return "Move it away to begin a new history (artifacts stay), or restore a backup of your own."
    put_back = f"cp {shlex.quote(str(found))} {shlex.quote(str(path))}"
    return f"Put the latest sound copy back: {put_back}; runs since then are not in it."

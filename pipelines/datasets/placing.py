"""Puts a data set that was made aside where it belongs, whole or not at all."""

from __future__ import annotations

from pathlib import Path


def put_in_place(made: Path, folder: Path, done: str) -> None:
    """Renames a folder that holds the file `done`, which is written last.

    Where another run was quicker, its copy stays: both are the same.

    Raises:
        OSError: the place cannot be written, or holds something else.
    """
    try:
        made.rename(folder)
    except OSError:
        if not (folder / done).exists():
            raise

"""TFX's metadata handle with the workspace's lock around each section."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

from tfx.orchestration import metadata

from pipelines.lineage.locking import exclusive


class LockedMetadata(metadata.Metadata):
    """Holds the lock while it is entered; TFX enters it briefly, and never while a node works."""

    def __init__(self, path: Path) -> None:
        """Makes the handle; the compiled pipeline names a file too, which a look on a copy must not touch."""
        super().__init__(metadata.sqlite_metadata_connection_config(str(path)))
        self._path = path
        self._locks: list[AbstractContextManager[None]] = []

    def __enter__(self) -> Self:
        lock = exclusive(self._path)
        lock.__enter__()
        self._locks.append(lock)
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._locks.pop().__exit__(None, None, None)

"""TFX's metadata handle with the workspace's lock around each section."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Self

from tfx.orchestration import metadata

from pipelines.lineage.database import Database, open_store


class LockedMetadata(metadata.Metadata):
    """Holds the lock while it is entered; TFX enters it briefly, and never while a node works."""

    def __init__(self, database: Database) -> None:
        """Makes the handle. The compiled pipeline names the database too, but holds no password."""
        super().__init__(database.config())
        self._database = database
        self._locks: list[AbstractContextManager[None]] = []

    def __enter__(self) -> Self:
        lock = self._database.exclusive()
        lock.__enter__()
        self._locks.append(lock)
        # As TFX does it, but for how the store is opened.
        self._store = open_store(self._database)
        self._users += 1
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._locks.pop().__exit__(None, None, None)

"""Opens a workspace's record for questions.

with record_of(workspace) as source: ...
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from pipelines.lineage.api import ApiSource
from pipelines.lineage.source import Source
from pipelines.lineage.sqlite import SqliteSource
from pipelines.workspace import Workspace


def record_of(workspace: Workspace) -> AbstractContextManager[Source]:
    """The record, to be entered. The one place that says which store it is read from."""
    database = workspace.database
    return SqliteSource(database.path) if database.is_file else ApiSource(database)

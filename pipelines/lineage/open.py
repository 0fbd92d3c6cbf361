"""Opens a workspace's record for questions.

with record_of(workspace) as source: ...
"""

from __future__ import annotations

from pipelines.lineage.sqlite import SqliteSource
from pipelines.workspace import Workspace


def record_of(workspace: Workspace) -> SqliteSource:
    """The record, to be entered. The one place that says which store it is read from."""
    return SqliteSource(workspace.metadata_path)

"""Where a run keeps what it writes beside its artifacts. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.lineage.database import Database


@dataclass(frozen=True)
class RunFiles:
    """Where a run keeps its logs and events, and the workspace's metadata."""

    folder: Path
    database: Database


def log_path(run_folder: Path, node_id: str) -> Path:
    """Where a node's output goes under the local runner."""
    return run_folder / f"{node_id}.log"

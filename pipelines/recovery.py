"""Brings the record in line with runs that died: nothing stays `running` for ever.

    recovered = settle_dead(workspace)     # ids of the runs that were found dead

Called by every command that runs or lists; costs a look for lease files.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from pipelines import backups, leases, lost_pushes
from pipelines.errors import HeadraceError, WorkspaceError
from pipelines.lineage import store as lineage
from pipelines.lineage.records import RunRecord
from pipelines.workspace import Workspace


def settle_dead(workspace: Workspace) -> list[str]:
    """Marks dead runs as interrupted, and their running executions as canceled.

    A workspace that cannot be written is left as it is: `state_of` still says
    what is true.

    Raises:
        WorkspaceError: the record is damaged.
    """
    with contextlib.suppress(OSError):  # read-only, so that not even a lock can be taken
        if workspace.database.is_file:
            backups.check(workspace.database.path)
    settled = []
    with contextlib.suppress(OSError, WorkspaceError):
        _settle_operations(workspace)
    for folder in leases.left_behind(workspace.runs):
        with contextlib.suppress(OSError, WorkspaceError):
            if _settle(workspace, folder):
                settled.append(folder.name)
    return settled


def operations_lock(workspace_root: Path) -> Path:
    """The file that rollbacks and prunes hold while they work; it stays until they are settled."""
    return workspace_root / "operations.lock"


def _settle_operations(workspace: Workspace) -> None:
    """Where no rollback or prune is at work, those that count as running were killed."""
    path = operations_lock(workspace.root)
    descriptor = leases.try_lock(path) if path.exists() else None
    if descriptor is None:
        return
    try:
        if workspace.database.is_there():
            with lineage.Store(workspace.database) as store:
                store.cancel_operations(lineage.OPERATIONS)
        path.unlink()
    finally:
        os.close(descriptor)


def _settle(workspace: Workspace, folder: Path) -> bool:
    descriptor = leases.try_lock(folder / leases.FILE)
    if descriptor is None:
        return False  # somebody else does it, or resumes the run
    try:
        died = (folder / leases.FILE).stat().st_mtime
        interrupted = workspace.database.is_there() and _interrupt(workspace, folder.name, died)
        (folder / leases.FILE).unlink()
        return interrupted
    finally:
        os.close(descriptor)


def settle(workspace: Workspace, run_id: str) -> None:
    """Marks a run as interrupted that counts as running, though the caller holds its lease.

    `settle_dead` leaves a run alone while children of the killed process hold
    on to the lease, and they may let go of it right behind.
    """
    _interrupt(workspace, run_id, time.time())


def _interrupt(workspace: Workspace, run_id: str, died: float) -> bool:
    """Whether the run was recorded, and as running; its last sign of life becomes its end."""
    with lineage.Store(workspace.database) as store:
        try:
            run = store.run(run_id)
        except HeadraceError:
            return False  # it died before it was recorded
        store.cancel_running(run_id)
        lost_pushes.record(store, workspace, run_id)
        if run.state != lineage.RUNNING:
            return False
        error = {
            "headline": "The run was ended from outside, without a chance to say so",
            "place": run_id,
            "remedy": f"headrace run --resume {run_id} goes on from here.",
        }
        store.end_run(run_id, lineage.INTERRUPTED, max(died, run.started), {"error": error})
    return True


def state_of(record: RunRecord, workspace: Workspace) -> str:
    """A run's state, also where the record could not be brought in line."""
    if record.state == lineage.RUNNING and not leases.is_alive(workspace.run_folder(record.run_id)):
        return lineage.INTERRUPTED
    return record.state

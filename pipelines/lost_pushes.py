"""Records what a run has put into service and was killed before it could record.

    lost_pushes.record(store, workspace, run_id)        # once nobody works on that run any more

A version carries the id of the run that pushed it. Where ML Metadata knows no
push of a version that is there, `why` and `trace` would else never tell what
served from then on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from components.serving_pusher import root as serving_root
from components.serving_pusher.push import STAMP_FILE
from pipelines.lineage.store import ROLLBACK, Store
from pipelines.workspace import Workspace

_PUSHED = "PushedModel"
_NODE = "Pusher"


@dataclass(frozen=True)
class _Version:
    model: str
    number: int
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.model}@{self.number}"

    @property
    def at(self) -> float:
        """When it was renamed into its place, in seconds since the epoch."""
        return self.folder.stat().st_ctime


def record(store: Store, workspace: Workspace, run_id: str) -> list[str]:
    """Adds the pushes of a run that are missing; returns their names, `model@version`."""
    found = [version for version in _versions(workspace) if _run_of(version.folder) == run_id]
    if not found:
        return []
    pushed = [artifact.properties.get("pushed_destination") for artifact in store.artifacts_of_type(_PUSHED)]
    # By names, since a workspace may have been moved.
    known = {Path(str(destination)).parts[-2:] for destination in pushed if destination}
    lost = [version for version in found if version.folder.parts[-2:] not in known]
    return [version.name for version in lost if _add(store, workspace, run_id, version)]


def _versions(workspace: Workspace) -> Iterator[_Version]:
    roots = sorted(workspace.serving.iterdir()) if workspace.serving.is_dir() else []
    for root in roots:
        if root.is_dir() and not root.name.startswith("."):
            for number in serving_root.versions(root):
                yield _Version(root.name, number, root / str(number))


def _run_of(folder: Path) -> str:
    """The run that pushed a version; empty for one that others pushed."""
    try:
        return str(json.loads((folder / STAMP_FILE).read_text())["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _add(store: Store, workspace: Workspace, run_id: str, version: _Version) -> bool:
    nodes = [node for node in store.nodes(run_id) if node.node == _NODE]
    if not nodes:
        return False
    execution = max(node.execution_id for node in nodes)
    artifact = store.add_output(
        execution,
        _PUSHED,
        "pushed_model",
        str(workspace.artifacts / "recovered" / _NODE / "pushed_model" / str(execution)),
        {"pushed": 1, "pushed_destination": str(version.folder), "pushed_version": str(version.number)},
    )
    # The artifact is of now; from when on it served is said by an event of its own.
    reason = f"pushed by {run_id}, which was ended before it could record that"
    told: dict[str, str | int | float] = {
        "model": version.model,
        "from_version": 0,
        "to_version": version.number,
        "reason": reason,
        "at": version.at,
    }
    store.end_operation(store.begin_operation(ROLLBACK, told, {"in_service": [artifact]}), ok=True)
    return True

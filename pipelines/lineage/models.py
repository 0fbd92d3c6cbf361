"""The models of a workspace: each pushed version with its state, metric, size and run.

for version in versions(source, model="digits", limit=20): ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from components.serving_pusher import root as serving_root
from pipelines.lineage.source import Push, Source
from pipelines.lineage.view import RunView

State = Literal["serving", "kept", "withdrawn", "removed"]


@dataclass(frozen=True)
class Version:
    """A pushed version as it is now.

    Attributes:
        push: when and where it was pushed.
        state: `serving` where a server that watches the root takes it, `kept`
            below that, `withdrawn` after a rollback, `removed` where it is gone.
        accuracy: on the test split, in [0, 1]; None where it was not recorded.
        bytes: of its folder; None where that is gone.
        run_id: the run that pushed it.
    """

    push: Push
    state: State
    accuracy: float | None
    bytes: int | None
    run_id: str


def versions(source: Source, model: str | None = None, limit: int | None = None) -> list[Version]:
    """Versions of a model or of all, newest first."""
    pushes = sorted(source.pushes(model), key=lambda push: (push.at, push.version), reverse=True)
    return [_version(source, push) for push in pushes[:limit]]


def _version(source: Source, push: Push) -> Version:
    run_id = run_id_of(source, push)
    run = source.run(run_id) if run_id else None
    summary = run.details.get("summary") or {} if run else {}
    folder = serving_root.folder_of(Path(push.destination).parent, push.version)
    size = _size(folder) if folder is not None else None
    return Version(push, _state(push, folder), summary.get("accuracy"), size, run_id)


def _state(push: Push, folder: Path | None) -> State:
    root = Path(push.destination).parent
    if folder is None:
        return "removed"
    if folder.parent != root:
        return "withdrawn"
    return "serving" if serving_root.in_service(root) == push.version else "kept"


def run_id_of(source: Source, push: Push) -> str:
    """The run that pushed a version; empty where its record is gone."""
    edges = source.producers([push.artifact])
    found = source.executions([edge.execution for edge in edges]).values()
    return next((execution.run_id for execution in found), "")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def versions_of(source: Source, servable: int) -> Sequence[Push]:
    """The versions that a servable artifact was pushed as."""
    pushers = {edge.execution for edge in source.consumers([servable]) if edge.key == "model"}
    pushed = {edge.artifact for edge in source.outputs(pushers) if edge.key == "pushed_model"}
    return [push for push in source.pushes() if push.artifact in pushed] if pushed else []


def baseline_of(source: Source, run: RunView) -> str:
    """The version that a run's model was compared with; empty where there was none."""
    evaluator = run.nodes.get("Evaluator")
    compared = evaluator.inputs.get("baseline_model", ()) if evaluator else ()
    pushed = [push.name for model in compared for push in versions_of(source, model.id)]
    return pushed[0] if pushed else ""

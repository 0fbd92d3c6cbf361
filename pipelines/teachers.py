"""Which trained model a distillation's `teacher` names.

    path = teacher_path("fashion@2", workspace, features=False)

A pushed version may be in a format that only answers; the model that it was
rewritten from is found by the record of its run.
"""

from __future__ import annotations

from pathlib import Path

from components.serving import manifest
from components.serving_pusher import root as serving_root
from pipelines.errors import InputError, nearest
from pipelines.lineage.store import Store
from pipelines.workspace import Workspace

_SAVED_MODEL, _KERAS = Path("Format-Serving"), Path("keras", "model.keras")


def teacher_path(teacher: str, workspace: Workspace, *, features: bool) -> Path:
    """The `.keras` file or SavedModel of a teacher.

    Args:
        teacher: MODEL, MODEL@VERSION, or a path.
        workspace: where models were pushed.
        features: whether features are to be matched, which takes the `.keras` file.

    Raises:
        InputError: there is no such model, version or file, or its trained model is gone.
    """
    path = Path(teacher).expanduser()
    if path.suffix == ".keras" or "/" in teacher:
        if not path.exists():
            raise InputError(
                "The teacher does not exist", place=teacher, remedy="Check train.distill.teacher."
            )
        return path.absolute()
    model, _, version = teacher.partition("@")
    root = workspace.serving_root(model)
    folder = _version_folder(root, version) if root.is_dir() else None
    if folder is None:
        pushed = [item.name for item in workspace.serving.iterdir()] if workspace.serving.is_dir() else []
        hint = nearest(model, pushed) if model not in pushed else "headrace models lists its versions."
        raise InputError(
            f"No model {teacher!r} was pushed in this workspace",
            place="train.distill.teacher",
            remedy=f"Run its experiment first, or name a file. {hint}".strip(),
        )
    return _trained(folder, workspace, features)


def _version_folder(root: Path, version: str) -> Path | None:
    number = int(version) if version.isdecimal() else None if version else serving_root.in_service(root)
    return None if number is None else serving_root.folder_of(root, number)


def _trained(folder: Path, workspace: Workspace, features: bool) -> Path:
    run_id = str(manifest.read(folder).get("run", ""))
    with Store(workspace.database) as store:
        outputs = [node.outputs for node in store.nodes(run_id) if node.node == "Trainer"]
    for output in outputs:
        for artifact in output.get("model", []):
            path = Path(artifact.uri) / (_KERAS if features else _SAVED_MODEL)
            if path.exists():
                return path
    raise InputError(
        "The model that this version was rewritten from is no longer there",
        place=str(folder),
        remedy="Run its experiment again, or name a .keras file as the teacher.",
    )

"""What a model in service has predicted, against what it predicted of its own test split.

    watch = PredictionDrift(experiment, workspace)
    watch(push, run)            # sentences; None where too little was logged

Reads what `headrace serve --prediction_log` wrote. The test split's predictions
are worked out once a version, and kept beside the rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components import subprocesses
from components.challenge import predicted
from components.challenge.predicted import Distribution
from components.serving.server.prediction_log import files_of
from components.serving_pusher import root as serving_root
from pipelines.config import Experiment
from pipelines.lineage.source import Push
from pipelines.lineage.view import RunView
from pipelines.retraining import json_lines
from pipelines.workspace import Workspace

_SPLIT = "test"
_SECONDS = 3600.0


def folder_of(workspace: Workspace) -> Path:
    """Where a workspace's predictions are logged unless the experiment says otherwise."""
    return workspace.root / "predictions"


class PredictionDrift:
    """Compares logged predictions with the test split's.

    Args:
        experiment: whose model it is.
        workspace: where it is served from.
        looks_only: never to load a model; a version whose test split is not known yet says nothing.
    """

    def __init__(self, experiment: Experiment, workspace: Workspace, *, looks_only: bool = False) -> None:
        self._experiment = experiment
        self._workspace = workspace
        self._looks_only = looks_only

    def __call__(self, push: Push, run: RunView) -> Sequence[str] | None:
        settings = self._experiment.retraining.predictions
        if settings is None:
            return None
        folder = Path(settings.log).expanduser() if settings.log else folder_of(self._workspace)
        lines = recent(folder, push.model, push.version, settings.requests)
        if len(lines) < settings.requests:
            return None
        expected = self._expected(push, run)
        return predicted.apart(predicted.of_log(lines), expected, settings.max_distance) if expected else None

    def _expected(self, push: Push, run: RunView) -> Distribution | None:
        path = self._workspace.root / "retraining" / self._experiment.name / f"test-{push.version}.json"
        try:
            return Distribution.read(path)
        except (OSError, ValueError):
            pass  # not known yet, or damaged
        examples = run.output("ExampleGen", "examples")
        folder = serving_root.folder_of(self._workspace.serving_root(push.model), push.version)
        if self._looks_only or examples is None or folder is None:
            return None
        path.parent.mkdir(parents=True, exist_ok=True)
        task = predicted.Task(str(folder), examples.uri, _SPLIT, str(path))
        try:
            subprocesses.run(predicted.measure, task, limits=subprocesses.Limits(seconds=_SECONDS))
        except subprocesses.WorkerFailed:
            return None
        return Distribution.read(path)


def recent(folder: Path, model: str, version: int, count: int) -> list[dict[str, Any]]:
    """A version's newest logged predictions, at most `count`, oldest first."""
    found = [line for path in files_of(folder, model) for line in json_lines.read(path)]
    return [line for line in found if line.get("version") == version][-count:]

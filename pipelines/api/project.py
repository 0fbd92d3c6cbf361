"""A workspace from Python: runs it starts, runs and models it holds, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines import config
from pipelines.api.child import run_apart
from pipelines.api.graph import Graph
from pipelines.api.run import Run
from pipelines.lineage import compare, models, query
from pipelines.lineage.open import record_of
from pipelines.lineage.view import view
from pipelines.workspace import Workspace, default_root

if TYPE_CHECKING:
    import pandas as pd


class Project:
    """A workspace: its runs, models and lineage.

    Args:
        root: the workspace's folder; `workspace`, or what HEADRACE_WORKSPACE says, by default.
    """

    def __init__(self, root: str | Path | None = None) -> None:
        self._root = Path(root or default_root()).expanduser().absolute()

    def run(
        self,
        experiment: str | Mapping[str, Any],
        settings: Mapping[str, Any] | None = None,
        *,
        runner: str = "local",
        progress: bool = True,
    ) -> Run:
        """Runs an experiment to its end.

        Args:
            experiment: a name, a YAML file, or the keys and values of one.
            settings: dotted key -> value, as `--set` takes them.
            runner: local or beam.
            progress: whether lines about the nodes are printed.

        Raises:
            HeadraceError: a mistake in what was given, a node that failed, or an interruption.
        """
        overrides = [f"{key}={json.dumps(value)}" for key, value in (settings or {}).items()]
        loaded = (
            config.load(experiment, overrides)
            if isinstance(experiment, str)
            else config.from_mapping(experiment, overrides)
        )
        return self.get(run_apart(loaded, self._root, runner, progress))

    def get(self, run: str = "latest") -> Run:
        """A run by its id, a unique prefix of it, or `latest`.

        Raises:
            NotFoundError: there is none.
            WorkspaceError: there is no workspace.
        """
        with record_of(self._workspace) as source:
            return Run(view(source, query.find_run(source, run)))

    def runs(self, limit: int = 50) -> pd.DataFrame:
        """The runs, newest first: run, experiment, state, began, seconds, accuracy, version."""
        import pandas as pd

        with record_of(self._workspace) as source:
            records = [source.run(run_id) for run_id in source.run_ids(limit=limit)]
        rows = [
            {
                "run": record.run_id,
                "experiment": record.experiment,
                "state": record.state,
                "began": pd.Timestamp(record.started, unit="s", tz="UTC"),
                "seconds": record.ended - record.started if record.ended else None,
                "accuracy": (record.details.get("summary") or {}).get("accuracy"),
                "version": (record.details.get("summary") or {}).get("pushed_version") or None,
            }
            for record in records
            if record is not None
        ]
        columns = ["run", "experiment", "state", "began", "seconds", "accuracy", "version"]
        return pd.DataFrame(rows, columns=columns)

    def models(self, model: str | None = None) -> pd.DataFrame:
        """Pushed versions, newest first: model, version, state, accuracy, bytes, run."""
        import pandas as pd

        with record_of(self._workspace) as source:
            found = models.versions(source, model)
        rows = [
            {
                "model": item.push.model,
                "version": item.push.version,
                "state": item.state,
                "accuracy": item.accuracy,
                "bytes": item.bytes,
                "run": item.run_id,
            }
            for item in found
        ]
        return pd.DataFrame(rows, columns=["model", "version", "state", "accuracy", "bytes", "run"])

    def compare(self, first: str | Run, second: str | Run) -> pd.DataFrame:
        """What differs between two runs: section, what, before, after; causes before effects."""
        import pandas as pd

        with record_of(self._workspace) as source:
            seen = [view(source, query.find_run(source, _id(run))) for run in (first, second)]
        rows = [asdict(item) for item in compare.compare(*seen)]
        return pd.DataFrame(rows, columns=["section", "what", "before", "after"])

    def lineage(self, target: str, *, down: bool = False, depth: int | None = None) -> Graph:
        """What made a target, or with `down` what came of it.

        Args:
            target: `model@version`, a run, `artifact:ID`, or an input file.
            down: follow outputs instead of inputs.
            depth: at most so many executions in a row.

        Raises:
            NotFoundError: nothing has that name.
        """
        with record_of(self._workspace) as source:
            found = query.resolve(source, target)
            return Graph(query.follow(source, found, "down" if down else "up", depth))

    @property
    def _workspace(self) -> Workspace:
        return Workspace.open(self._root)


def _id(run: str | Run) -> str:
    return run.id if isinstance(run, Run) else run

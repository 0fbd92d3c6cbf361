"""Where an installation's state lies, and the names of runs.

workspace = Workspace.open(Path("workspace"))
workspace.database, workspace.artifacts, workspace.serving_root("digits")
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

from components.example_gen.origins import FOLDER as FETCHED
from pipelines.errors import WorkspaceError
from pipelines.lineage.database import Database, Settings, settle

_MIN_FREE_BYTES = 256 << 20
"""Below this a run is not started: TFX would fail half-way."""


@dataclass(frozen=True)
class Workspace:
    """The folder that holds `metadata.db`, `artifacts/`, `serving/`, `data/` and `runs/`."""

    root: Path
    private: bool = False
    """Whether its record is in its own file, whatever the environment says: a scratch workspace."""

    @classmethod
    def open(cls, root: str | Path, *, create: bool = False, private: bool = False) -> Self:
        """The workspace at `root`; with `create`, made and tried for writing.

        Raises:
            WorkspaceError: it does not exist, cannot be written, or its disk is full.
        """
        workspace = cls(Path(root).expanduser().absolute(), private)
        if create:
            workspace._prepare()
        elif not workspace.database.is_there():
            raise WorkspaceError(
                "There is no workspace here yet",
                place=str(workspace.root),
                remedy="Run an experiment first (headrace run digits), or name another with --workspace.",
            )
        return workspace

    def _prepare(self) -> None:
        try:
            for folder in (self.root, self.artifacts, self.serving, self.data, self.runs):
                folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=folder) as file:
                    file.write(b"headrace")
                    file.flush()
        except OSError as error:
            raise WorkspaceError(
                f"The workspace cannot be written: {error.strerror or error}",
                place=str(error.filename or self.root),
                remedy="Name a folder you may write to with --workspace, or free space on its disk.",
            ) from error
        free = shutil.disk_usage(self.root).free
        if free < _MIN_FREE_BYTES:
            raise WorkspaceError(
                f"The disk is full: {free >> 20} MiB are free; at least {_MIN_FREE_BYTES >> 20} are needed",
                place=str(self.root),
                remedy="Free space, or name a folder on another disk with --workspace.",
            )

    @property
    def database(self) -> Database:
        """Where its record is: `metadata.db` in it, or a database on a server."""
        return Database(self.root / "metadata.db") if self.private else Database.of(self.root)

    def settle(self, settings: Settings | None) -> Database:
        """Where the record of a run is that begins now; see `database.settle`."""
        return self.database if self.private else settle(self.root, settings)

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def serving(self) -> Path:
        return self.root / "serving"

    @property
    def data(self) -> Path:
        """Data sets that an experiment makes for itself."""
        return self.root / "data"

    @property
    def fetched(self) -> Path:
        """Copies of data that lies elsewhere; see `pipelines.remote`."""
        return self.data / FETCHED

    @property
    def reports(self) -> Path:
        """HTML pages, one a run."""
        return self.root / "reports"

    @property
    def runs(self) -> Path:
        """Logs and events, one folder a run."""
        return self.root / "runs"

    def serving_root(self, model: str) -> Path:
        """The folder that a model server watches for a model."""
        return self.serving / model

    @property
    def training(self) -> Path:
        return self.root / "training"

    def training_root(self, experiment: str) -> Path:
        """The folder with the checkpoints of an experiment's unfinished trainings."""
        return self.training / experiment

    def run_folder(self, run_id: str) -> Path:
        return self.runs / run_id


def new_run_id(experiment: str, now: datetime) -> str:
    """`<experiment>-<yyyymmdd-hhmmss>-<4 hex>`."""
    return f"{experiment}-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def experiment_of(run_id: str) -> str:
    """The experiment in a run's id."""
    return run_id.rsplit("-", 3)[0]


def default_root() -> str:
    """`HEADRACE_WORKSPACE`, else `workspace` in the current folder."""
    return os.environ.get("HEADRACE_WORKSPACE", "workspace")

"""What lineage queries ask of a store: a few batched look-ups, each answered by an index.

`sqlite.SqliteSource` answers them from the workspace's file; a record in
another database is another class with these methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pipelines.lineage.records import ArtifactRecord, RunRecord


@dataclass(frozen=True)
class Execution:
    """One node's execution, with the run it belongs to.

    Attributes:
        id: MLMD's.
        node: node id.
        run_id: the run, or empty.
        state: `complete`, `cached`, `running`, `failed`, `canceled`, `new`.
        started: seconds since the epoch.
        properties: ours and TFX's.
    """

    id: int
    node: str
    run_id: str
    state: str
    started: float
    properties: Mapping[str, str | int | float]


class Edge(NamedTuple):
    """An execution reads or writes an artifact; `key` is its input or output key.

    A tuple, since answers hold tens of thousands.
    """

    artifact: int
    execution: int
    key: str
    reads: bool


@dataclass(frozen=True)
class Push:
    """A version that was pushed.

    Attributes:
        artifact: id of the PushedModel.
        model: name of its serving root.
        version: its number.
        destination: the version's folder.
        at: seconds since the epoch.
    """

    artifact: int
    model: str
    version: int
    destination: str
    at: float

    @property
    def name(self) -> str:
        """`model@version`."""
        return f"{self.model}@{self.version}"


@dataclass(frozen=True)
class Switch:
    """Another version that was put in service, back or forward.

    Attributes:
        version: in service from then on.
        at: seconds since the epoch.
        reason: in words; may be empty.
    """

    version: int
    at: float
    reason: str


class Source(Protocol):
    """A store to be asked; each call takes and gives whole batches."""

    def producers(self, artifacts: Iterable[int]) -> Sequence[Edge]:
        """The execution that made each artifact; not those that took it from the cache."""

    def consumers(self, artifacts: Iterable[int]) -> Sequence[Edge]:
        """The executions that read the artifacts and did something with them (not the cached)."""

    def inputs(self, executions: Iterable[int]) -> Sequence[Edge]:
        """What executions read."""

    def outputs(self, executions: Iterable[int]) -> Sequence[Edge]:
        """What executions wrote, took from the cache, or (resolvers) found."""

    def executions(self, ids: Iterable[int]) -> Mapping[int, Execution]:
        """Executions by id; unknown ids are left out."""

    def artifacts(self, ids: Iterable[int]) -> Mapping[int, ArtifactRecord]:
        """Artifacts by id; unknown ids are left out."""

    def input_files(self, path: str) -> Sequence[int]:
        """Input files at `path`, or below it where it is a folder; oldest first."""

    def pushes(self, model: str | None = None) -> Sequence[Push]:
        """Pushed versions of a model or of all, oldest first."""

    def pushes_around(self, model: str, at: float) -> Sequence[Push]:
        """The few pushes of a model just before a time (or at it) and just after it, oldest first."""

    def push(self, model: str, version: int) -> Push | None:
        """One pushed version."""

    def switches(self, model: str) -> Sequence[Switch]:
        """Rollbacks of a model, also those that went forward, that were carried out; oldest first."""

    def run_executions(self, run_id: str) -> Sequence[int]:
        """A run's executions, oldest first."""

    def run(self, run_id: str) -> RunRecord | None:
        """A run by its whole id."""

    def find_runs(self, text: str, state: str, limit: int, offset: int = 0) -> Sequence[RunRecord]:
        """Runs whose id holds `text`, in a state (any where it is empty), newest first.

        Ids begin with the experiment's name.
        """

    def run_ids(self, prefix: str = "", limit: int = 50) -> Sequence[str]:
        """Ids of runs that begin so, newest first."""


def model_of(destination: str) -> str:
    """The model's name in `.../serving/<model>/<version>`."""
    parts = destination.rstrip("/").split("/")
    return parts[-2] if len(parts) > 1 else ""

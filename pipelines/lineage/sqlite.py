"""Lineage look-ups straight from the SQLite file of ML Metadata.

    with SqliteSource(workspace.database.path) as source:
        source.producers([17])

ML Metadata's API answers `get_lineage_subgraph` with every execution that ever
took an artifact from the cache, and looks up contexts of an execution by
reading their whole table. Here each question is one statement on an index, and
who made an artifact is the first execution that wrote it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines.errors import WorkspaceError
from pipelines.lineage import reading
from pipelines.lineage.locking import exclusive
from pipelines.lineage.records import ArtifactRecord, RunRecord
from pipelines.lineage.source import Edge, Execution, Push, Switch, model_of
from pipelines.lineage.store import INPUT_FILE, ROLLBACK, RUN_TYPE, TFX_NODE_TYPE, TFX_RUN_TYPE

_READS = f"({pb.Event.INPUT}, {pb.Event.DECLARED_INPUT}, {pb.Event.INTERNAL_INPUT})"
_MAKES = f"({pb.Event.OUTPUT}, {pb.Event.DECLARED_OUTPUT})"
_WRITES = f"({pb.Event.OUTPUT}, {pb.Event.DECLARED_OUTPUT}, {pb.Event.INTERNAL_OUTPUT})"

_INDEXES = {
    "headrace_association_execution": "Association(execution_id)",
    "headrace_attribution_artifact": "Attribution(artifact_id)",
}
"""ML Metadata has no index that leads from an execution to its run."""

_IDS = "(SELECT value FROM json_each(?))"
_EDGE = "SELECT Event.artifact_id, Event.execution_id, coalesce(EventPath.step_key, '')"
_KEY = "LEFT JOIN EventPath ON EventPath.event_id = Event.id AND EventPath.is_index_step = 0"

_PRODUCERS = f"""
{_EDGE} FROM json_each(?) AS wanted JOIN Event ON Event.id = (
  SELECT id FROM Event WHERE artifact_id = wanted.value AND type IN {_MAKES} ORDER BY execution_id LIMIT 1
) {_KEY}"""

_CONSUMERS = f"""
{_EDGE} FROM Event JOIN Execution ON Execution.id = Event.execution_id {_KEY}
WHERE Event.artifact_id IN {_IDS} AND Event.type IN {_READS}
AND Execution.last_known_state != {pb.Execution.CACHED} ORDER BY Event.id"""

_OF_EXECUTIONS = f"""
{_EDGE} FROM Event {_KEY} WHERE Event.execution_id IN {_IDS} AND Event.type IN {{types}} ORDER BY Event.id"""

_EXECUTIONS = f"""
SELECT Execution.id, Type.name, last_known_state, create_time_since_epoch FROM Execution
CROSS JOIN Type ON Type.id = Execution.type_id WHERE Execution.id IN {_IDS} ORDER BY Execution.id"""

# CROSS JOIN keeps SQLite from beginning at the other end, where there are 10,000 runs.
_CONTEXTS = f"""
SELECT Association.execution_id, Type.name, Context.name FROM Association
CROSS JOIN Context ON Context.id = Association.context_id CROSS JOIN Type ON Type.id = Context.type_id
WHERE Association.execution_id IN {_IDS} AND Type.name IN ('{TFX_NODE_TYPE}', '{TFX_RUN_TYPE}')"""

_ARTIFACTS = f"""
SELECT Artifact.id, Type.name, Artifact.uri FROM Artifact JOIN Type ON Type.id = Artifact.type_id
WHERE Artifact.id IN {_IDS} ORDER BY Artifact.id"""

_PROPERTIES = f"""
SELECT {{kind}}_id, name, coalesce(int_value, double_value, string_value) FROM {{table}}
WHERE {{kind}}_id IN {_IDS} ORDER BY is_custom_property"""

_INPUT_FILES = f"""
SELECT Artifact.id FROM Artifact CROSS JOIN Type ON Type.id = Artifact.type_id
WHERE (uri = ? OR (uri > ? AND uri < ?)) AND Type.name = '{INPUT_FILE}' ORDER BY Artifact.id"""

_PUSHED = """
SELECT Artifact.id, version.string_value, destination.string_value, create_time_since_epoch FROM {order}
CROSS JOIN Artifact ON Artifact.id = version.artifact_id
WHERE version.name = 'pushed_version' AND version.is_custom_property = 1 AND version.string_value IS NOT NULL
AND destination.name = 'pushed_destination' AND destination.is_custom_property = 1
AND destination.string_value IS NOT NULL AND {chosen} ORDER BY Artifact.id"""

_OF_MODEL = """substr(destination.string_value, -length(version.string_value) - length(?1) - 2)
= '/' || ?1 || '/' || version.string_value"""

# Other models' versions are passed over before their other property is looked up.
_PUSHES = _PUSHED.format(
    order="ArtifactProperty AS destination CROSS JOIN ArtifactProperty AS version"
    " ON version.artifact_id = destination.artifact_id",
    chosen=f"(?1 IS NULL OR instr(destination.string_value, '/' || ?1 || '/') AND {_OF_MODEL})",
)
_PUSH = _PUSHED.format(
    order="ArtifactProperty AS version CROSS JOIN ArtifactProperty AS destination"
    " ON destination.artifact_id = version.artifact_id",
    chosen=f"version.string_value = ?2 AND {_OF_MODEL}",
)

# From the time on through the index by time; the plus sign keeps SQLite from taking the one by type.
_NEAREST = """
SELECT Artifact.id, version.string_value, destination.string_value, create_time_since_epoch FROM Artifact
CROSS JOIN ArtifactProperty AS version ON version.artifact_id = Artifact.id
CROSS JOIN ArtifactProperty AS destination ON destination.artifact_id = Artifact.id
WHERE Artifact.create_time_since_epoch {side} ?2
AND +Artifact.type_id IN (SELECT id FROM Type WHERE name = 'PushedModel')
AND version.name = 'pushed_version' AND version.is_custom_property = 1
AND destination.name = 'pushed_destination' AND destination.is_custom_property = 1
AND {of_model} ORDER BY Artifact.create_time_since_epoch {order} LIMIT {limit}"""
_BEFORE = _NEAREST.format(side="<=", order="DESC", of_model=_OF_MODEL, limit=8)
_AFTER = _NEAREST.format(side=">", order="ASC", of_model=_OF_MODEL, limit=8)

_SWITCHES = f"""
SELECT version.int_value, at.double_value, reason.string_value FROM ExecutionProperty AS model
CROSS JOIN Execution ON Execution.id = model.execution_id CROSS JOIN Type ON Type.id = Execution.type_id
JOIN ExecutionProperty AS version ON version.execution_id = Execution.id AND version.name = 'to_version'
JOIN ExecutionProperty AS at ON at.execution_id = Execution.id AND at.name = 'at'
LEFT JOIN ExecutionProperty AS reason ON reason.execution_id = Execution.id AND reason.name = 'reason'
WHERE model.name = 'model' AND model.is_custom_property = 1 AND model.string_value = ?
AND Type.name = '{ROLLBACK}' AND Execution.last_known_state = {pb.Execution.COMPLETE}
ORDER BY at.double_value"""

_RUN_IDS = f"""
SELECT Context.name FROM Context JOIN Type ON Type.id = Context.type_id
WHERE Type.name = '{RUN_TYPE}' AND Context.name >= ? AND Context.name < ? ORDER BY Context.id DESC LIMIT ?"""

_FIND_RUNS = f"""
SELECT Context.name FROM Context JOIN Type ON Type.id = Context.type_id
WHERE Type.name = '{RUN_TYPE}' AND instr(Context.name, ?1) AND (?2 = '' OR EXISTS (
  SELECT 1 FROM ContextProperty AS state WHERE state.context_id = Context.id
  AND state.name = 'state' AND state.string_value = ?2
)) ORDER BY Context.id DESC LIMIT ?3 OFFSET ?4"""

_RUN = f"""
SELECT property.name, int_value, double_value, string_value FROM Context
JOIN Type ON Type.id = Context.type_id JOIN ContextProperty AS property ON property.context_id = Context.id
WHERE Type.name = '{RUN_TYPE}' AND Context.name = ?"""

_RUN_EXECUTIONS = f"""
SELECT Association.execution_id FROM Context JOIN Type ON Type.id = Context.type_id
JOIN Association ON Association.context_id = Context.id
WHERE Type.name = '{TFX_RUN_TYPE}' AND Context.name = ? ORDER BY Association.execution_id"""

_MAY_NOT_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS)
_MAPPED_BYTES = 1 << 30
_LAST = "\U0010ffff"


class SqliteSource:
    """Implements `source.Source`; to be entered, and left soon: other processes wait meanwhile."""

    _connection: sqlite3.Connection

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Opens the file.

        Raises:
            WorkspaceError: it is no metadata store.
        """
        self._take_lock()
        try:
            self._connection = reading.connect(self._path)
            # Look-ups go all over the file; a system call for each page would be most of their time.
            self._connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
            self._prepare()
        except sqlite3.Error as error:
            self._lock.close()
            raise WorkspaceError(
                f"The metadata store cannot be read: {error}",
                place=str(self._path),
                remedy="Restore it from a backup, or name another workspace with --workspace.",
            ) from error
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()
        self._lock.close()

    def _take_lock(self) -> None:
        """Whoever may read a workspace and not write it makes no lock, and cannot disturb a writer's."""
        try:
            self._lock.enter_context(exclusive(self._path))
        except OSError as error:
            if error.errno not in _MAY_NOT_WRITE:
                raise

    def _prepare(self) -> None:
        """Makes our indexes where they are missing; a file that may not be written does without."""
        found = {name for (name,) in self._rows("SELECT name FROM sqlite_master WHERE type = 'index'")}
        if found.issuperset(_INDEXES):
            return
        try:
            add_indexes(self._path)
        except OSError as error:
            if error.errno not in _MAY_NOT_WRITE:
                raise
        except sqlite3.OperationalError as error:
            if "readonly" not in str(error):
                raise

    def _rows(self, statement: str, *parameters: Any) -> list[Any]:
        return self._connection.execute(statement, parameters).fetchall()

    def producers(self, artifacts: Iterable[int]) -> Sequence[Edge]:
        return self._edges(False, _PRODUCERS, _json(artifacts))

    def consumers(self, artifacts: Iterable[int]) -> Sequence[Edge]:
        return self._edges(True, _CONSUMERS, _json(artifacts))

    def inputs(self, executions: Iterable[int]) -> Sequence[Edge]:
        return self._edges(True, _OF_EXECUTIONS.format(types=_READS), _json(executions))

    def outputs(self, executions: Iterable[int]) -> Sequence[Edge]:
        return self._edges(False, _OF_EXECUTIONS.format(types=_WRITES), _json(executions))

    def _edges(self, reads: bool, statement: str, wanted: str) -> list[Edge]:
        rows = self._rows(statement, wanted)
        return [Edge(artifact, execution, key, reads) for artifact, execution, key in rows]

    def executions(self, ids: Iterable[int]) -> Mapping[int, Execution]:
        wanted = _json(ids)
        nodes, runs = self._contexts(wanted)
        properties = self._properties("execution", wanted)
        return {
            number: Execution(
                id=number,
                # What is done outside of runs belongs to no node, and is called by its type.
                node=nodes.get(number, kind.rpartition(".")[2]),
                run_id=runs.get(number, ""),
                state=pb.Execution.State.Name(state).lower(),
                started=created / 1000,
                properties=properties.get(number, {}),
            )
            for number, kind, state, created in self._rows(_EXECUTIONS, wanted)
        }

    def _contexts(self, wanted: str) -> tuple[dict[int, str], dict[int, str]]:
        """Node ids and run ids of executions; TFX's node contexts are named `<pipeline>.<node>`."""
        rows = self._rows(_CONTEXTS, wanted)
        nodes = {number: name.rpartition(".")[2] for number, kind, name in rows if kind == TFX_NODE_TYPE}
        # A run's own context has the lower id where a partial run took an execution over.
        runs: dict[int, str] = {}
        for number, kind, name in rows:
            if kind == TFX_RUN_TYPE:
                runs.setdefault(number, name)
        return nodes, runs

    def artifacts(self, ids: Iterable[int]) -> Mapping[int, ArtifactRecord]:
        wanted = _json(ids)
        properties = self._properties("artifact", wanted)
        return {
            number: ArtifactRecord(number, kind, uri or "", properties.get(number, {}))
            for number, kind, uri in self._rows(_ARTIFACTS, wanted)
        }

    def _properties(self, kind: str, wanted: str) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        statement = _PROPERTIES.format(kind=kind, table=f"{kind.capitalize()}Property")
        for number, name, value in self._rows(statement, wanted):
            if value is not None:
                properties = found.get(number)
                if properties is None:
                    properties = found[number] = {}
                properties[name] = value
        return found

    def input_files(self, path: str) -> Sequence[int]:
        folder = path.rstrip("/")
        return [number for (number,) in self._rows(_INPUT_FILES, folder, f"{folder}/", f"{folder}/{_LAST}")]

    def pushes(self, model: str | None = None) -> Sequence[Push]:
        return [_push(row) for row in self._rows(_PUSHES, model)]

    def pushes_around(self, model: str, at: float) -> Sequence[Push]:
        moment = round(at * 1000)
        before, after = self._rows(_BEFORE, model, moment), self._rows(_AFTER, model, moment)
        return [_push(row) for row in [*reversed(before), *after]]

    def push(self, model: str, version: int) -> Push | None:
        rows = self._rows(_PUSH, model, str(version))
        return _push(rows[-1]) if rows else None

    def switches(self, model: str) -> Sequence[Switch]:
        rows = self._rows(_SWITCHES, model)
        return [Switch(version, at, reason or "") for version, at, reason in rows]

    def run_executions(self, run_id: str) -> Sequence[int]:
        return [number for (number,) in self._rows(_RUN_EXECUTIONS, run_id)]

    def run(self, run_id: str) -> RunRecord | None:
        rows = self._rows(_RUN, run_id)
        return RunRecord.of(run_id, {name: _value(values) for name, *values in rows}) if rows else None

    def find_runs(self, text: str, state: str, limit: int, offset: int = 0) -> Sequence[RunRecord]:
        names = [name for (name,) in self._rows(_FIND_RUNS, text, state, limit, offset)]
        return [run for run in map(self.run, names) if run]

    def run_ids(self, prefix: str = "", limit: int = 50) -> Sequence[str]:
        return [name for (name,) in self._rows(_RUN_IDS, prefix, prefix + _LAST, limit)]


def add_indexes(path: Path) -> None:
    """Adds our indexes to a metadata file; ML Metadata works on beside them.

    Raises:
        sqlite3.Error: the file is no metadata store, or cannot be written.
    """
    with exclusive(path):
        connection = sqlite3.connect(path)
        try:
            with connection:
                for name, columns in _INDEXES.items():
                    connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {columns}")
        finally:
            connection.close()


def _json(ids: Iterable[int]) -> str:
    return json.dumps(sorted(set(ids)))


def _value(values: Sequence[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _push(row: tuple[int, str, str, int]) -> Push:
    artifact, version, destination, created = row
    return Push(artifact, model_of(destination), int(version), destination, created / 1000)

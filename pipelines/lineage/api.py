"""Lineage look-ups through ML Metadata's own API, for records on MySQL, MariaDB and PostgreSQL.

    with ApiSource(workspace.database) as source:
        source.producers([17])

The same questions as `sqlite.SqliteSource` answers, by calls that every
database of ML Metadata understands. An execution's run and node cost a call
each, so answers take longer than those from the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from ml_metadata.metadata_store import ListOptions, OrderByField
from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines.lineage.database import Database, connected
from pipelines.lineage.messages import known_or_none, values_of
from pipelines.lineage.records import ArtifactRecord, RunRecord
from pipelines.lineage.source import Edge, Execution, Push, Switch, model_of
from pipelines.lineage.store import INPUT_FILE, ROLLBACK, RUN_TYPE, TFX_NODE_TYPE, TFX_RUN_TYPE

_READS = (pb.Event.INPUT, pb.Event.DECLARED_INPUT, pb.Event.INTERNAL_INPUT)
_MAKES = (pb.Event.OUTPUT, pb.Event.DECLARED_OUTPUT)
_WRITES = (*_MAKES, pb.Event.INTERNAL_OUTPUT)
_NEAREST = 8


class ApiSource:
    """Implements `source.Source`; to be entered."""

    _store: Any

    def __init__(self, database: Database) -> None:
        self._database = database
        self._opened = contextlib.ExitStack()
        self._types: dict[int, str] = {}

    def __enter__(self) -> Self:
        """Connects.

        Raises:
            WorkspaceError: the database cannot be reached, or is no metadata store.
        """
        with contextlib.ExitStack() as opened:
            if self._database.is_file:
                opened.enter_context(self._database.exclusive())
            self._store = opened.enter_context(connected(self._database))
            self._opened = opened.pop_all()
        self._types = {kind.id: kind.name for kind in self._store.get_context_types()}
        return self

    def __exit__(self, *exception: object) -> None:
        self._store = None
        self._opened.close()

    def producers(self, artifacts: Iterable[int]) -> Sequence[Edge]:
        first: dict[int, Any] = {}
        for event in self._events_of_artifacts(artifacts):
            known = first.get(event.artifact_id)
            if event.type in _MAKES and (known is None or event.execution_id < known.execution_id):
                first[event.artifact_id] = event
        return [_edge(first[number]) for number in sorted(first)]

    def consumers(self, artifacts: Iterable[int]) -> Sequence[Edge]:
        events = [event for event in self._events_of_artifacts(artifacts) if event.type in _READS]
        readers = sorted({event.execution_id for event in events})
        executions = self._store.get_executions_by_id(readers) if readers else []
        worked = {item.id for item in executions if item.last_known_state != pb.Execution.CACHED}
        return [_edge(event) for event in events if event.execution_id in worked]

    def inputs(self, executions: Iterable[int]) -> Sequence[Edge]:
        return [_edge(event) for event in self._events_of_executions(executions) if event.type in _READS]

    def outputs(self, executions: Iterable[int]) -> Sequence[Edge]:
        return [_edge(event) for event in self._events_of_executions(executions) if event.type in _WRITES]

    def _events_of_artifacts(self, artifacts: Iterable[int]) -> list[Any]:
        ids = sorted(set(artifacts))
        return _in_order(self._store.get_events_by_artifact_ids(ids)) if ids else []

    def _events_of_executions(self, executions: Iterable[int]) -> list[Any]:
        ids = sorted(set(executions))
        return _in_order(self._store.get_events_by_execution_ids(ids)) if ids else []

    def executions(self, ids: Iterable[int]) -> Mapping[int, Execution]:
        wanted = sorted(set(ids))
        found = self._store.get_executions_by_id(wanted) if wanted else []
        return {item.id: self._execution(item) for item in sorted(found, key=lambda item: item.id)}

    def _execution(self, item: Any) -> Execution:
        node, run_id = item.type.rpartition(".")[2], ""
        contexts = known_or_none(lambda: self._store.get_contexts_by_execution(item.id)) or []
        # A run's own context has the lower id where a partial run took an execution over.
        for context in sorted(contexts, key=lambda found: -found.id):
            kind = self._types.get(context.type_id)
            if kind == TFX_NODE_TYPE:
                node = context.name.rpartition(".")[2]
            elif kind == TFX_RUN_TYPE:
                run_id = context.name
        return Execution(
            id=item.id,
            node=node,
            run_id=run_id,
            state=pb.Execution.State.Name(item.last_known_state).lower(),
            started=item.create_time_since_epoch / 1000,
            properties={**values_of(item.properties), **values_of(item.custom_properties)},
        )

    def artifacts(self, ids: Iterable[int]) -> Mapping[int, ArtifactRecord]:
        wanted = sorted(set(ids))
        found = self._store.get_artifacts_by_id(wanted) if wanted else []
        return {item.id: _artifact(item) for item in sorted(found, key=lambda item: item.id)}

    def input_files(self, path: str) -> Sequence[int]:
        folder = path.rstrip("/")
        pattern = _pattern(folder)
        found = self._listed(f"type = '{INPUT_FILE}' AND (uri LIKE '{pattern}' OR uri LIKE '{pattern}/%')")
        # LIKE takes upper and lower case for the same on some servers, and one underscore for any sign.
        return sorted(item.id for item in found if item.uri == folder or item.uri.startswith(f"{folder}/"))

    def _listed(self, condition: str) -> list[Any]:
        return list(self._store.get_artifacts(ListOptions(filter_query=condition)))

    def pushes(self, model: str | None = None) -> Sequence[Push]:
        found = known_or_none(lambda: self._store.get_artifacts_by_type("PushedModel")) or []
        pushes = [push for push in map(_push, sorted(found, key=lambda item: item.id)) if push]
        return [push for push in pushes if model is None or push.model == model]

    def pushes_around(self, model: str, at: float) -> Sequence[Push]:
        mine = sorted(self.pushes(model), key=lambda push: push.at)
        before = [push for push in mine if round(push.at * 1000) <= round(at * 1000)]
        return mine[max(0, len(before) - _NEAREST) : len(before) + _NEAREST]

    def push(self, model: str, version: int) -> Push | None:
        return next((push for push in reversed(self.pushes(model)) if push.version == version), None)

    def switches(self, model: str) -> Sequence[Switch]:
        found = known_or_none(lambda: self._store.get_executions_by_type(ROLLBACK)) or []
        done = [item for item in found if item.last_known_state == pb.Execution.COMPLETE]
        told = [values_of(item.custom_properties) for item in done]
        mine = [values for values in told if values.get("model") == model]
        switches = [
            Switch(int(values["to_version"]), float(values["at"]), str(values.get("reason", "")))
            for values in mine
        ]
        return sorted(switches, key=lambda switch: switch.at)

    def run_executions(self, run_id: str) -> Sequence[int]:
        context = self._store.get_context_by_type_and_name(TFX_RUN_TYPE, run_id)
        found = self._store.get_executions_by_context(context.id) if context else []
        return sorted(item.id for item in found)

    def run(self, run_id: str) -> RunRecord | None:
        context = self._store.get_context_by_type_and_name(RUN_TYPE, run_id)
        return RunRecord.of(run_id, values_of(context.custom_properties)) if context else None

    def find_runs(self, text: str, state: str, limit: int, offset: int = 0) -> Sequence[RunRecord]:
        # The API knows no offset. Of a text with a sign that LIKE cannot take, more is read than asked for.
        condition = f"type = '{RUN_TYPE}' AND name LIKE '%{_pattern(text)}%'"
        if state:
            condition += f" AND custom_properties.state.string_value = '{_pattern(state)}'"
        found = self._contexts(condition, limit + offset)
        runs = [RunRecord.of(item.name, values_of(item.custom_properties)) for item in found]
        return [run for run in runs if text in run.run_id][offset:]

    def _contexts(self, condition: str, limit: int) -> list[Any]:
        options = ListOptions(filter_query=condition, order_by=OrderByField.ID, is_asc=False, limit=limit)
        return known_or_none(lambda: self._store.get_contexts(options)) or []

    def run_ids(self, prefix: str = "", limit: int = 50) -> Sequence[str]:
        condition = f"type = '{RUN_TYPE}'"
        if prefix:
            condition += f" AND name LIKE '{_pattern(prefix)}%'"
        return [
            context.name for context in self._contexts(condition, limit) if context.name.startswith(prefix)
        ]


def _in_order(events: Iterable[Any]) -> list[Any]:
    return sorted(events, key=lambda event: (event.execution_id, event.milliseconds_since_epoch))


def _edge(event: Any) -> Edge:
    key = next((step.key for step in event.path.steps if step.WhichOneof("value") == "key"), "")
    return Edge(event.artifact_id, event.execution_id, key, event.type in _READS)


def _artifact(item: Any) -> ArtifactRecord:
    properties = {**values_of(item.properties), **values_of(item.custom_properties)}
    return ArtifactRecord(item.id, item.type, item.uri, properties)


def _push(item: Any) -> Push | None:
    values = values_of(item.custom_properties)
    destination, version = str(values.get("pushed_destination", "")), values.get("pushed_version")
    if not destination or version is None:
        return None
    at = item.create_time_since_epoch / 1000
    return Push(item.id, model_of(destination), int(version), destination, at)


def _pattern(text: str) -> str:
    """What LIKE takes for this text or more: signs that mean something to it become any sign."""
    return "".join("_" if sign in "%\\'\"" else sign for sign in text)

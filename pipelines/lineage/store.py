"""ML Metadata behind one small interface: runs, nodes, artifacts.

    with Store(workspace.database) as store:
        store.runs()                    # newest first
        store.nodes(run_id)             # what each node did

TFX's launcher writes executions, artifacts and events; this module adds one
context per run (`HeadraceRun`) with what TFX does not record, and reads all.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines.errors import NotFoundError, WorkspaceError, nearest
from pipelines.lineage.database import Database, connected
from pipelines.lineage.messages import input_event, known_or_none, set_values, state_of, values_of
from pipelines.lineage.records import ArtifactRecord, NodeRecord, RunRecord

RUN_TYPE = "HeadraceRun"
TFX_RUN_TYPE = "pipeline_run"
TFX_NODE_TYPE = "node"

ROLLBACK, PRUNE, CLEANING = "HeadraceRollback", "HeadracePrune", "HeadraceCleaning"
"""Execution types of what is done to served models and to artifacts outside of runs."""

RETRAINING = "HeadraceRetraining"
"""Execution type of a decision about training again; see `pipelines.retraining`."""

OPERATIONS = (ROLLBACK, PRUNE, CLEANING)

INPUT_FILE = "InputFile"
"""Artifact type of what ExampleGen read; its events have the key `files`."""

RUNNING, COMPLETE, FAILED, INTERRUPTED, REFUSED = "running", "complete", "failed", "interrupted", "refused"


class Store:
    """The metadata store of a workspace, to be entered.

    While it is entered no other process gets in, so that is to be short, and
    never across a fork.
    """

    _store: Any

    def __init__(self, database: Database | Path) -> None:
        """Makes the handle.

        Args:
            database: where the record is; a path is that of a SQLite file.
        """
        self._database = Database(database) if isinstance(database, Path) else database
        self._place = self._database.name
        self._opened = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Opens or makes the store.

        Raises:
            WorkspaceError: the file is no metadata store or cannot be written, or the
                server cannot be used.
        """
        with contextlib.ExitStack() as opened:
            self._lock(opened)
            self._store = opened.enter_context(connected(self._database))
            self._opened = opened.pop_all()
        return self

    def _lock(self, opened: contextlib.ExitStack) -> None:
        try:
            opened.enter_context(self._database.exclusive())
        except OSError as error:
            raise WorkspaceError(
                f"The metadata store cannot be written: {error.strerror}",
                place=str(self._database.path),
                remedy="ML Metadata needs to write even to read: make the workspace writable.",
            ) from error

    def __exit__(self, *exception: object) -> None:
        self._store = None
        self._opened.close()

    def begin_run(self, run_id: str, experiment: str, started: float, details: Mapping[str, Any]) -> None:
        """Records that a run has begun."""
        type_id = self._store.put_context_type(pb.ContextType(name=RUN_TYPE), can_add_fields=True)
        context = pb.Context(name=run_id, type_id=type_id)
        set_values(context, {"experiment": experiment, "state": RUNNING, "started": started})
        set_values(context, {"details": json.dumps(details, sort_keys=True)})
        self._store.put_contexts([context])

    def end_run(self, run_id: str, state: str, ended: float, details: Mapping[str, Any]) -> None:
        """Records how a run ended; `details` are added to those it began with."""
        context = self._run_context(run_id)
        merged = {**json.loads(context.custom_properties["details"].string_value), **details}
        set_values(context, {"state": state, "ended": ended, "details": json.dumps(merged, sort_keys=True)})
        self._store.put_contexts([context])

    def run(self, run_id: str) -> RunRecord:
        """The run of exactly that id.

        Raises:
            NotFoundError: there is none.
        """
        return _run_record(self._run_context(run_id))

    def reopen_run(self, run_id: str, details: Mapping[str, Any]) -> None:
        """Records that a run goes on; `details` are added."""
        context = self._run_context(run_id)
        merged = {**json.loads(context.custom_properties["details"].string_value), **details}
        if "ended" in context.custom_properties:
            del context.custom_properties["ended"]
        set_values(context, {"state": RUNNING, "details": json.dumps(merged, sort_keys=True)})
        self._store.put_contexts([context])

    def reopen_executions(self, execution_ids: Sequence[int]) -> None:
        """Marks executions as running again; TFX's launcher then takes them up."""
        found = self._store.get_executions_by_id(execution_ids)
        for execution in found:
            execution.last_known_state = pb.Execution.RUNNING
        if found:
            self._store.put_executions(found)

    def cancel_running(self, run_id: str) -> list[int]:
        """Marks a run's executions that still count as running as canceled; returns their ids."""
        left = [
            execution
            for execution in self._executions(run_id)
            if execution.last_known_state in (pb.Execution.RUNNING, pb.Execution.NEW)
        ]
        return self._cancel(left)

    def disown(self, execution_id: int) -> None:
        """Marks an execution as failed that counted as complete, so that nothing takes its outputs up."""
        self.end_operation(execution_id, ok=False)
        outputs = [artifact.id for held in self.node(execution_id).outputs.values() for artifact in held]
        found = self._store.get_artifacts_by_id(outputs)
        for artifact in found:
            artifact.state = pb.Artifact.ABANDONED
        if found:
            self._store.put_artifacts(found)

    def annotate_execution(self, execution_id: int, properties: Mapping[str, str | int | float]) -> None:
        """Adds custom properties to an execution. (Cache keys read artifacts, not executions.)"""
        found = self._store.get_executions_by_id([execution_id])
        for execution in found:
            set_values(execution, properties)
        self._store.put_executions(found)

    def link_inputs(
        self, execution_id: int, type_name: str, key: str, inputs: Sequence[ArtifactRecord]
    ) -> None:
        """Records artifacts as further inputs of an execution that has ended.

        An artifact of the same type, place and digest is used again, so that
        whoever reads a file twice leaves one artifact with two readers. The
        execution's cache key was made before, and does not change.

        Args:
            execution_id: of the execution.
            type_name: artifact type; made when there is none.
            key: input key of the events.
            inputs: `id` is not read; `properties` must hold `sha256`.
        """
        type_id = self._store.put_artifact_type(pb.ArtifactType(name=type_name), can_add_fields=True)
        wanted = {(record.uri, record.properties["sha256"]): record for record in inputs}
        ids = {found: self._known_artifact(type_id, *found) for found in wanted}
        new = [found for found, number in ids.items() if number is None]
        # All at once: a transaction each would hold the store for seconds.
        made = self._store.put_artifacts([_artifact(type_id, wanted[found]) for found in new])
        ids.update(zip(new, made, strict=True))
        path = pb.Event.Path(steps=[pb.Event.Path.Step(key=key)])
        self._store.put_events(
            pb.Event(artifact_id=number, execution_id=execution_id, type=pb.Event.INPUT, path=path)
            for number in ids.values()
        )

    def add_output(
        self,
        execution_id: int,
        type_name: str,
        key: str,
        uri: str,
        properties: Mapping[str, str | int | float],
    ) -> int:
        """Records an artifact as an output of an execution that ended without a chance to; returns its id.

        Args:
            execution_id: of the execution.
            type_name: artifact type, of TFX's base type for models where there is none yet.
            key: output key of the event.
            uri: where it lies.
            properties: custom properties.
        """
        kind = known_or_none(lambda: self._store.get_artifact_type(type_name))
        type_id = (
            self._store.put_artifact_type(pb.ArtifactType(name=type_name, base_type=pb.ArtifactType.MODEL))
            if kind is None
            else kind.id
        )
        made = _artifact(type_id, ArtifactRecord(0, type_name, uri, properties))
        (artifact,) = self._store.put_artifacts([made])
        path = pb.Event.Path(steps=[pb.Event.Path.Step(key=key), pb.Event.Path.Step(index=0)])
        event = pb.Event(artifact_id=artifact, execution_id=execution_id, type=pb.Event.OUTPUT, path=path)
        self._store.put_events([event])
        return int(artifact)

    def _known_artifact(self, type_id: int, uri: str, sha256: str | int | float) -> int | None:
        for artifact in self._store.get_artifacts_by_uri(uri):
            if artifact.type_id == type_id and artifact.custom_properties["sha256"].string_value == sha256:
                return int(artifact.id)
        return None

    def execution_state(self, execution_id: int) -> str:
        """`complete`, `cached`, `running`, `failed`, `canceled` or `new`."""
        found = self._store.get_executions_by_id([execution_id])
        return state_of(found[0]) if found else "unknown"

    def runs(self) -> list[RunRecord]:
        """All runs, newest first."""
        contexts = known_or_none(lambda: self._store.get_contexts_by_type(RUN_TYPE)) or []
        # By the order in which they were recorded: clocks go back.
        newest_first = sorted(contexts, key=lambda context: context.id, reverse=True)
        return list(map(_run_record, newest_first))

    def find_run(self, name: str) -> RunRecord:
        """A run by its id, a unique prefix of it, or `latest`.

        Raises:
            NotFoundError: no run or several have that name.
        """
        runs = self.runs()
        if not runs:
            raise NotFoundError("There are no runs in this workspace yet", place=self._place)
        if name == "latest":
            return runs[0]
        exact = [run for run in runs if run.run_id == name]
        matching = exact or [run for run in runs if run.run_id.startswith(name)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            ids = ", ".join(run.run_id for run in matching[:4])
            raise NotFoundError(
                f"{len(matching)} runs begin with {name!r}", place=ids, remedy="Type more of it."
            )
        remedy = nearest(name, [run.run_id for run in runs[:50]])
        raise NotFoundError(f"There is no run {name!r}", place=self._place, remedy=remedy)

    def nodes(self, run_id: str) -> list[NodeRecord]:
        """What a run's nodes did, in the order in which they began."""
        return self._node_records(sorted(self._executions(run_id), key=lambda execution: execution.id))

    def node(self, execution_id: int) -> NodeRecord:
        """What one execution did.

        Raises:
            NotFoundError: there is no such execution.
        """
        found = self._store.get_executions_by_id([execution_id])
        if not found:
            raise NotFoundError(f"There is no execution {execution_id}", place=self._place)
        return self._node_records(found)[0]

    def _node_records(self, executions: Sequence[Any]) -> list[NodeRecord]:
        events = self._store.get_events_by_execution_ids([execution.id for execution in executions])
        artifacts = self._artifacts({event.artifact_id for event in events})
        return [self._node_record(execution, events, artifacts) for execution in executions]

    def artifacts_of_type(self, type_name: str) -> list[ArtifactRecord]:
        """All artifacts of a type, oldest first; none where the type is unknown."""
        found = known_or_none(lambda: self._store.get_artifacts_by_type(type_name)) or []
        records = self._artifacts({artifact.id for artifact in found})
        return [records[number] for number in sorted(records)]

    def begin_operation(
        self,
        kind: str,
        properties: Mapping[str, str | int | float],
        artifacts: Mapping[str, Sequence[int]],
    ) -> int:
        """Records something done outside of runs as an execution of its own; returns its id.

        Artifacts are left as they are, since cache keys read them.

        Args:
            kind: the execution's type, such as `HeadraceRollback`.
            properties: what is done, why and when.
            artifacts: what it is done to, by role; each becomes an input event,
                and may have one role only.
        """
        type_id = self._store.put_execution_type(pb.ExecutionType(name=kind), can_add_fields=True)
        execution = pb.Execution(type_id=type_id, last_known_state=pb.Execution.RUNNING)
        set_values(execution, properties)
        (execution_id,) = self._store.put_executions([execution])
        events = [
            input_event(execution_id, artifact_id, role, index)
            for role, ids in artifacts.items()
            for index, artifact_id in enumerate(ids)
        ]
        if events:
            self._store.put_events(events)
        return int(execution_id)

    def end_operation(self, execution_id: int, *, ok: bool) -> None:
        """Records how an operation ended."""
        (execution,) = self._store.get_executions_by_id([execution_id])
        execution.last_known_state = pb.Execution.COMPLETE if ok else pb.Execution.FAILED
        self._store.put_executions([execution])

    def cancel_operations(self, kinds: Sequence[str], **told: str) -> list[int]:
        """Marks operations that count as running as canceled; returns their ids.

        Args:
            kinds: their types.
            told: properties that they must have, too.
        """
        known = {kind.name for kind in self._store.get_execution_types()}
        left = [
            execution
            for kind in kinds
            if kind in known
            for execution in self._store.get_executions_by_type(kind)
            if execution.last_known_state == pb.Execution.RUNNING
            and all(execution.custom_properties[name].string_value == value for name, value in told.items())
        ]
        return self._cancel(left)

    def _cancel(self, executions: Sequence[Any]) -> list[int]:
        for execution in executions:
            execution.last_known_state = pb.Execution.CANCELED
        if executions:
            self._store.put_executions(executions)
        return [execution.id for execution in executions]

    def _node_record(
        self, execution: Any, events: Sequence[Any], artifacts: Mapping[int, ArtifactRecord]
    ) -> NodeRecord:
        inputs: dict[str, list[ArtifactRecord]] = {}
        outputs: dict[str, list[ArtifactRecord]] = {}
        for event in events:
            if event.execution_id == execution.id and event.artifact_id in artifacts:
                incoming = event.type in (pb.Event.INPUT, pb.Event.DECLARED_INPUT, pb.Event.INTERNAL_INPUT)
                side = inputs if incoming else outputs
                side.setdefault(event.path.steps[0].key, []).append(artifacts[event.artifact_id])
        return NodeRecord(
            node=self._node_id(execution),
            execution_id=execution.id,
            state=state_of(execution),
            properties=values_of(execution.custom_properties),
            inputs=inputs,
            outputs=outputs,
        )

    def _node_id(self, execution: Any) -> str:
        """TFX puts each execution into a context named `<pipeline>.<node>`."""
        types = {TFX_NODE_TYPE: self._store.get_context_type(TFX_NODE_TYPE).id}
        for context in self._store.get_contexts_by_execution(execution.id):
            if context.type_id == types[TFX_NODE_TYPE]:
                return str(context.name).rpartition(".")[2]
        return f"execution {execution.id}"

    def _executions(self, run_id: str) -> list[Any]:
        context = self._store.get_context_by_type_and_name(TFX_RUN_TYPE, run_id)
        return [] if context is None else list(self._store.get_executions_by_context(context.id))

    def _artifacts(self, ids: set[int]) -> dict[int, ArtifactRecord]:
        found = self._store.get_artifacts_by_id(sorted(ids)) if ids else []
        return {
            artifact.id: ArtifactRecord(
                id=artifact.id,
                type=artifact.type,
                uri=artifact.uri,
                properties={**values_of(artifact.properties), **values_of(artifact.custom_properties)},
            )
            for artifact in found
        }

    def _run_context(self, run_id: str) -> Any:
        context = self._store.get_context_by_type_and_name(RUN_TYPE, run_id)
        if context is None:
            raise NotFoundError(f"There is no run {run_id!r}", place=self._place)
        return context


def _run_record(context: Any) -> RunRecord:
    return RunRecord.of(context.name, values_of(context.custom_properties))


def _artifact(type_id: int, record: ArtifactRecord) -> Any:
    artifact = pb.Artifact(type_id=type_id, uri=record.uri, state=pb.Artifact.LIVE)
    set_values(artifact, record.properties)
    return artifact

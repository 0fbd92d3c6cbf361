"""ML Metadata in the types and properties that Kubeflow Pipelines' backend writes.

    records = Records(root / "metadata.db", "digits")
    records.begin("digits-...", root_uri)
    execution = records.create(CONTAINER, task_name, parent, parameters, artifact_ids)
    records.publish(execution, COMPLETE, output_parameters, artifact_ids)

Every number in an artifact's metadata becomes a double and every bool an int,
types have no properties, and an imported artifact is a new one unless an
earlier import has it: what a cluster does, so that what reads it meets the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format, struct_pb2

from pipelines.lineage.locking import exclusive

PIPELINE, PIPELINE_RUN = "system.Pipeline", "system.PipelineRun"
CONTAINER, DAG, IMPORTER = "system.ContainerExecution", "system.DAGExecution", "system.ImporterExecution"
COMPLETE, CACHED, FAILED, CANCELED, RUNNING = "COMPLETE", "CACHED", "FAILED", "CANCELED", "RUNNING"

SESSION = "store_session_info"
_OWN_SESSION = json.dumps({"Provider": "minio", "Params": {"fromEnv": "false"}})
_IMPORTED_SESSION = json.dumps({"Provider": "minio", "Params": {"fromEnv": "true"}})


@dataclass(frozen=True)
class Cached:
    """An earlier execution whose outputs are used again.

    Attributes:
        execution_id: its id.
        parameters: output parameters.
        artifacts: output key -> runtime artifacts, as JSON.
    """

    execution_id: int
    parameters: Mapping[str, Any]
    artifacts: Mapping[str, list[dict[str, Any]]]


class Records:
    """One pipeline's part of a metadata store."""

    def __init__(self, path: Path, pipeline: str) -> None:
        self._path = path
        self._pipeline = pipeline
        self._contexts: list[Any] = []

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """The store, for this process alone while it is open: containers read it too."""
        from ml_metadata.metadata_store import metadata_store
        from ml_metadata.proto import metadata_store_pb2 as pb

        sqlite = pb.SqliteMetadataSourceConfig(filename_uri=str(self._path))
        sqlite.connection_mode = pb.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        with exclusive(self._path):
            yield metadata_store.MetadataStore(pb.ConnectionConfig(sqlite=sqlite))

    def begin(self, run_id: str, root_uri: str) -> None:
        """Records the run's contexts."""
        with self._open() as store:
            pipeline = self._context(store, PIPELINE, self._pipeline, {})
            run = self._context(
                store,
                PIPELINE_RUN,
                run_id,
                {
                    "namespace": "local",
                    "resource_name": "run-resource",
                    "pipeline_root": root_uri,
                    SESSION: _OWN_SESSION,
                },
            )
            _relate(store, pipeline, run)
            self._contexts = [pipeline, run]

    def _context(self, store: Any, kind: str, name: str, properties: Mapping[str, str]) -> Any:
        from ml_metadata.proto import metadata_store_pb2 as pb

        found = store.get_context_by_type_and_name(kind, name)
        if found is not None:
            return found
        type_id = store.put_context_type(pb.ContextType(name=kind))
        context = pb.Context(name=name, type_id=type_id)
        for key, value in properties.items():
            context.custom_properties[key].string_value = value
        context.id = store.put_contexts([context])[0]
        return context

    def create(
        self,
        kind: str,
        task: str,
        parent: int | None,
        parameters: Mapping[str, Any],
        artifact_ids: Mapping[str, Sequence[int]],
        *,
        state: str = RUNNING,
        extra: Mapping[str, str | int] | None = None,
    ) -> int:
        """Records an execution; returns its id."""
        from ml_metadata.proto import metadata_store_pb2 as pb

        execution = pb.Execution(last_known_state=pb.Execution.State.Value(state))
        properties = execution.custom_properties
        properties["display_name"].string_value = task
        properties["task_name"].string_value = task
        if parent is not None:
            properties["parent_dag_id"].int_value = parent
        for key, value in (extra or {}).items():
            _set(properties[key], value)
        _set_struct(properties["inputs"], parameters)
        events = [
            (None, _event(key, number, pb.Event.INPUT)) for key, ids in artifact_ids.items() for number in ids
        ]
        with self._open() as store:
            execution.type_id = store.put_execution_type(pb.ExecutionType(name=kind))
            number, _, _ = store.put_execution(execution, [], self._contexts)
            for _, event in events:
                event.execution_id = number
            if events:
                store.put_events([event for _, event in events])
        return int(number)

    def publish(
        self,
        execution_id: int,
        state: str,
        parameters: Mapping[str, Any] | None = None,
        artifact_ids: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Records how an execution ended and what came of it."""
        from ml_metadata.proto import metadata_store_pb2 as pb

        with self._open() as store:
            (execution,) = store.get_executions_by_id([execution_id])
            execution.last_known_state = pb.Execution.State.Value(state)
            if parameters is not None:
                _set_struct(execution.custom_properties["outputs"], parameters)
            store.put_executions([execution])
            numbers = [(key, number) for key, ids in (artifact_ids or {}).items() for number in ids]
            if numbers:
                self._attribute(store, execution_id, numbers)

    def _attribute(self, store: Any, execution_id: int, numbers: Sequence[tuple[str, int]]) -> None:
        from ml_metadata.proto import metadata_store_pb2 as pb

        events = []
        for key, number in numbers:
            event = _event(key, number, pb.Event.OUTPUT)
            event.execution_id = execution_id
            events.append(event)
        store.put_events(events)
        pairs = [
            pb.Attribution(artifact_id=number, context_id=context.id)
            for _, number in numbers
            for context in self._contexts
        ]
        store.put_attributions_and_associations(pairs, [])

    def record_artifact(self, key: str, schema: str, uri: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Records an output artifact; returns it as later tasks get it."""
        with self._open() as store:
            artifact = _artifact(store, schema, uri, metadata)
            properties = artifact.custom_properties
            if "display_name" not in properties:
                properties["display_name"].string_value = key
            if SESSION not in properties:
                properties[SESSION].string_value = _OWN_SESSION
            artifact.id = store.put_artifacts([artifact])[0]
        return runtime_artifact(artifact)

    def import_artifact(
        self, schema: str, uri: str, metadata: Mapping[str, Any], *, reimport: bool
    ) -> dict[str, Any]:
        """The artifact that an earlier import of this pipeline recorded, or a new one."""
        with self._open() as store:
            artifact = _artifact(store, schema, uri, metadata)
            artifact.custom_properties[SESSION].string_value = _IMPORTED_SESSION
            known = None if reimport else self._matching(store, artifact)
            if known is None:
                artifact.id = store.put_artifacts([artifact])[0]
                known = artifact
        return runtime_artifact(known)

    def _matching(self, store: Any, wanted: Any) -> Any:
        for artifact in store.get_artifacts_by_uri(wanted.uri):
            same = artifact.type_id == wanted.type_id and artifact.state == wanted.state
            properties = wanted.custom_properties.items()
            if not same or any(artifact.custom_properties.get(key) != value for key, value in properties):
                continue
            contexts = {context.id for context in store.get_contexts_by_artifact(artifact.id)}
            if self._contexts[0].id in contexts:
                return artifact
        return None

    def find_cached(self, fingerprint: str) -> Cached | None:
        """The latest complete execution of this pipeline with the same cache key."""
        from ml_metadata.proto import metadata_store_pb2 as pb

        with self._open() as store:
            found = [
                execution
                for execution in store.get_executions_by_context(self._contexts[0].id)
                if execution.last_known_state == pb.Execution.COMPLETE
                and execution.custom_properties["cache_fingerprint"].string_value == fingerprint
            ]
            if not found:
                return None
            execution = max(found, key=lambda item: item.id)
            outputs = json_format.MessageToDict(execution.custom_properties["outputs"].struct_value)
            return Cached(int(execution.id), outputs, _outputs_of(store, execution.id))

    def close_open(self) -> None:
        """Marks executions of this run that still run as canceled, after an interruption."""
        from ml_metadata.proto import metadata_store_pb2 as pb

        with self._open() as store:
            left = [
                execution
                for execution in store.get_executions_by_context(self._contexts[1].id)
                if execution.last_known_state == pb.Execution.RUNNING
            ]
            for execution in left:
                execution.last_known_state = pb.Execution.CANCELED
            if left:
                store.put_executions(left)


def _relate(store: Any, parent: Any, child: Any) -> None:
    from ml_metadata.proto import metadata_store_pb2 as pb

    if child.id not in {found.id for found in store.get_children_contexts_by_context(parent.id)}:
        store.put_parent_contexts([pb.ParentContext(parent_id=parent.id, child_id=child.id)])


def _event(key: str, artifact_id: int, kind: Any) -> Any:
    from ml_metadata.proto import metadata_store_pb2 as pb

    path = pb.Event.Path(steps=[pb.Event.Path.Step(key=key)])
    return pb.Event(artifact_id=artifact_id, type=kind, path=path)


def title_of(schema: str) -> str:
    """The title in an artifact's schema: all that Kubeflow's store keeps of it."""
    return str(yaml.safe_load(schema)["title"])


def _artifact(store: Any, schema: str, uri: str, metadata: Mapping[str, Any]) -> Any:
    from ml_metadata.proto import metadata_store_pb2 as pb

    type_id = store.put_artifact_type(pb.ArtifactType(name=title_of(schema)))
    artifact = pb.Artifact(type_id=type_id, uri=uri, state=pb.Artifact.LIVE)
    for key, value in metadata.items():
        _set_metadata(artifact.custom_properties[key], value)
    return artifact


def _set_metadata(target: Any, value: Any) -> None:
    if isinstance(value, list):
        target.struct_value.update({"list": value})
    elif isinstance(value, dict):
        target.struct_value.update({"struct": value})
    elif isinstance(value, bool):
        target.int_value = int(value)
    elif isinstance(value, (int, float)):
        target.double_value = float(value)
    elif isinstance(value, str):
        target.string_value = value
    else:
        raise ValueError(f"Kubeflow's store takes no metadata of type {type(value).__name__}")


def _set(target: Any, value: str | int) -> None:
    if isinstance(value, str):
        target.string_value = value
    else:
        target.int_value = value


def _set_struct(target: Any, values: Mapping[str, Any]) -> None:
    struct = struct_pb2.Struct()
    struct.update(values)
    target.struct_value.CopyFrom(struct)


def runtime_artifact(artifact: Any) -> dict[str, Any]:
    """An MLMD artifact as the driver hands it to a later task: by id, and with no type in it."""
    metadata: dict[str, Any] = {}
    for key, value in artifact.custom_properties.items():
        kind = value.WhichOneof("value")
        if kind == "struct_value":
            metadata[key] = json_format.MessageToDict(value.struct_value)
        elif kind == "int_value":
            metadata[key] = float(value.int_value)
        elif kind:
            metadata[key] = getattr(value, kind)
    return {"name": str(artifact.id), "uri": artifact.uri, "metadata": metadata}


def _outputs_of(store: Any, execution_id: int) -> dict[str, list[dict[str, Any]]]:
    from ml_metadata.proto import metadata_store_pb2 as pb

    events = [
        event for event in store.get_events_by_execution_ids([execution_id]) if event.type == pb.Event.OUTPUT
    ]
    artifacts = {
        found.id: found for found in store.get_artifacts_by_id([event.artifact_id for event in events])
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        key = event.path.steps[0].key
        found.setdefault(key, []).append(runtime_artifact(artifacts[event.artifact_id]))
    return found

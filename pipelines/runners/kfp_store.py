"""Kubeflow's metadata store, as a container of a pipeline reads it.

    with_id = related(candidate_id, "tfx.Model")        # TFX artifacts of the same pipeline

KFP gives every container the address of its gRPC service by two environment
variables. Where there is no cluster, the spec runner gives the path of an
SQLite file by a third.
"""

from __future__ import annotations

import os
from typing import Any

from tfx import types

from pipelines.errors import WorkspaceError
from pipelines.runners.kfp_artifacts import set_metadata
from pipelines.runners.kfp_facts import FACTS, HOST, PORT, SQLITE

PIPELINE_CONTEXT = "system.Pipeline"


def connect() -> Any:
    """The store that the environment names.

    Raises:
        WorkspaceError: it names none.
    """
    from ml_metadata.metadata_store import metadata_store
    from ml_metadata.proto import metadata_store_pb2 as pb

    path = os.environ.get(SQLITE)
    if path:
        sqlite = pb.SqliteMetadataSourceConfig(filename_uri=path)
        return metadata_store.MetadataStore(pb.ConnectionConfig(sqlite=sqlite))
    host, port = os.environ.get(HOST), os.environ.get(PORT)
    if not host or not port:
        raise WorkspaceError(
            "The container was not told where the metadata store is",
            place=f"{HOST}, {PORT}",
            remedy="Kubeflow Pipelines sets both from its metadata-grpc-configmap; check that it is there.",
        )
    return metadata_store.MetadataStore(pb.MetadataStoreClientConfig(host=host, port=int(port)))


def related(store: Any, artifact_id: int, title: str, artifact_class: type[types.Artifact]) -> list[Any]:
    """All live artifacts of one type that the pipeline of an artifact has made, in any run.

    Made, not imported: Kubeflow's importer records a copy, with the same URI and
    a later id, of an artifact that a node of the pipeline made.

    Args:
        store: of `connect`.
        artifact_id: of an artifact of that pipeline.
        title: the type's name in Kubeflow's store, such as `tfx.Model`.
        artifact_class: TFX's class for it.
    """
    from ml_metadata.proto import metadata_store_pb2 as pb

    names = {found.id: found.name for found in store.get_artifact_types()}
    found = {}
    for context in store.get_contexts_by_artifact(artifact_id):
        if context.type == PIPELINE_CONTEXT:
            for artifact in store.get_artifacts_by_context(context.id):
                made = FACTS in artifact.custom_properties
                if made and names[artifact.type_id] == title and artifact.state == pb.Artifact.LIVE:
                    found[artifact.id] = _as_tfx(artifact, artifact_class)
    return list(found.values())


def _as_tfx(artifact: Any, artifact_class: type[types.Artifact]) -> types.Artifact:
    result = artifact_class()
    result.id, result.uri = artifact.id, artifact.uri
    set_metadata(result, {key: _value(value) for key, value in artifact.custom_properties.items()})
    return result


def _value(value: Any) -> str | float | int | None:
    kind = value.WhichOneof("value")
    return None if kind == "struct_value" else getattr(value, kind)

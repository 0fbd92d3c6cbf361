"""TFX artifacts from what Kubeflow's launcher hands a container, and back.

    artifact = from_runtime(runtime_artifact, "tfx.Model", local_path)
    metadata_of(artifact)                       # {"blessed": 1, ...}

TFX's own translation asks every artifact for its type, which open-source KFP
leaves empty on inputs, and opens URIs of object stores by itself, where KFP's
launcher has already copied them to a folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import yaml
from tfx import types
from tfx.orchestration.kubeflow.v2 import compiler_utils
from tfx.utils import import_utils

from components import artifacts

NOTHING = "headrace-nothing"
"""The last part of a URI that stands for no artifact."""

_DECLARED: list[Any] = [
    item for item in vars(artifacts).values() if getattr(item, "__module__", "") == artifacts.__name__
]
OWN_TYPES: dict[str, type[types.Artifact]] = {item.TYPE_NAME: item for item in _DECLARED}
"""Title -> class, of the types beside TFX's own."""


def title_of(artifact_type: Mapping[str, Any]) -> str:
    """The title in an ArtifactTypeSchema, as JSON; empty where there is none."""
    if artifact_type.get("schemaTitle"):
        return str(artifact_type["schemaTitle"])
    schema = yaml.safe_load(artifact_type.get("instanceSchema") or "") or {}
    return str(schema.get("title", ""))


def class_of(title: str) -> type[types.Artifact]:
    """TFX's class of a type's title; plain Artifact for Kubeflow's own types."""
    if title in OWN_TYPES:
        return OWN_TYPES[title]
    path = compiler_utils.TITLE_TO_CLASS_PATH.get(title)
    return import_utils.import_class_by_path(path) if path else types.Artifact


def set_metadata(artifact: types.Artifact, metadata: Mapping[str, Any]) -> None:
    """Sets properties; those that the type does not declare become custom ones.

    Kubeflow knows numbers, not integers; what is whole comes back as one where
    the type says INT, and through TFX's getters else.
    """
    declared = artifact.artifact_type.properties
    for key, value in metadata.items():
        if value is None or key in ("display_name", "store_session_info"):
            continue
        if key in declared:
            kind = types.artifact.PropertyType
            integral = artifact.PROPERTIES[key].type == kind.INT
            setattr(artifact, key, int(value) if integral else value)
        elif isinstance(value, str):
            artifact.set_string_custom_property(key, value)
        else:
            artifact.set_json_value_custom_property(key, value)
    # TFX's getters find a JSON value only after it was written to the message.
    artifact.mlmd_artifact  # noqa: B018


def from_runtime(runtime: Mapping[str, Any], title: str, local_path: str) -> types.Artifact:
    """An artifact as executors take it, whose URI is a local path.

    Args:
        runtime: a RuntimeArtifact, as JSON.
        title: of its type.
        local_path: where the launcher put it, or takes it from.
    """
    artifact = class_of(title)()
    artifact.uri = local_path
    if runtime.get("name"):
        artifact.id = id_of(str(runtime["name"]))
    set_metadata(artifact, runtime.get("metadata") or {})
    return artifact


def id_of(name: str) -> int:
    """TFX's integer for an artifact's name: open-source Kubeflow's is the id, Vertex's a resource's name."""
    if re.fullmatch(r"\d+", name):
        return int(name)
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7])


def is_nothing(runtime: Mapping[str, Any]) -> bool:
    """Whether an artifact stands for none."""
    return str(runtime.get("uri", "")).rstrip("/").endswith(f"/{NOTHING}")


def metadata_of(artifact: types.Artifact) -> dict[str, Any]:
    """All properties that are set, as JSON values."""
    from ml_metadata.proto import metadata_store_pb2 as pb

    found: dict[str, Any] = {}
    message: pb.Artifact = artifact.mlmd_artifact
    for properties in (message.properties, message.custom_properties):
        for key, value in properties.items():
            kind = value.WhichOneof("value")
            if kind == "struct_value":
                found[key] = artifact.get_json_value_custom_property(key)
            elif kind:
                found[key] = getattr(value, kind)
    return found

"""What the nodes of `kfp_nodes` do in their containers."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils, standard_artifacts

from pipelines import inputs
from pipelines.baseline import OtherBlessedModelStrategy, OtherStatisticsStrategy
from pipelines.config import from_mapping
from pipelines.runners import kfp_store
from pipelines.runners.kfp_artifacts import NOTHING
from pipelines.workspace import Workspace

NEWEST_SPAN = -1
"""The value of the parameter `span` that stands for the newest one."""

KFP_URI = "kfp_uri"
"""Custom property that the entry point gives every artifact: its URI in the object store."""


def _present(artifact: types.Artifact) -> bool:
    """Whether an artifact's files may be read: a container does not see the store, so the record counts."""
    return bool(artifact.uri)


def _single(artifacts: dict[str, list[types.Artifact]], key: str) -> types.Artifact:
    return artifact_utils.get_single_instance(artifacts[key])


class ResolveData(base_executor.BaseExecutor):
    """Finds this run's files and the digest of their contents."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `kfp_nodes.ResolveData`.

        Raises:
            InputError: the path does not exist, or holds no file of the format.
        """
        raw = json.loads(exec_properties["experiment"])
        if exec_properties["data_path"]:
            raw["data"]["path"], raw["data"]["source"] = exec_properties["data_path"], None
        span = int(exec_properties["span"])
        raw["data"]["span"] = None if span == NEWEST_SPAN else span
        workspace = Workspace.open(exec_properties["workspace"], create=True)
        resolved = inputs.resolve(from_mapping(raw), workspace)
        _single(output_dict, "request").value = resolved.request.to_json()
        _single(output_dict, "data_digest").value = resolved.digest


class _ResolveArtifact(base_executor.BaseExecutor):
    """Hands on the URI of an earlier artifact of the same pipeline, or of nothing."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `kfp_nodes`."""
        current = _single(input_dict, "current")
        found = self._find(kfp_store.connect(), current)
        # Below the pipeline's own folder, which containers may read: .../<run>/<task>/<salt>/<key>
        pipeline = current.get_string_custom_property(KFP_URI).split("/")[:-4]
        _single(output_dict, "uri").value = found[0].uri if found else "/".join([*pipeline, NOTHING])

    def _find(self, store: Any, current: types.Artifact) -> list[types.Artifact]:
        raise NotImplementedError


class ResolveBaseline(_ResolveArtifact):
    """The latest blessed servable of another trained model."""

    def _find(self, store: Any, current: types.Artifact) -> list[types.Artifact]:
        models = kfp_store.related(store, current.id, "tfx.Model", standard_artifacts.Model)
        blessings = kfp_store.related(
            store, current.id, "tfx.ModelBlessing", standard_artifacts.ModelBlessing
        )
        strategy = OtherBlessedModelStrategy(present=_present)
        given = {"candidate": [current], "model": models, "model_blessing": blessings}
        return (strategy.resolve_artifacts(None, given) or {}).get("model", [])


class ResolveStatistics(_ResolveArtifact):
    """The latest statistics that are older than the current ones and passed the gate."""

    def _find(self, store: Any, current: types.Artifact) -> list[types.Artifact]:
        kind = standard_artifacts.ExampleStatistics
        known = kfp_store.related(store, current.id, "tfx.ExampleStatistics", kind)
        strategy = OtherStatisticsStrategy(present=_present)
        given = {"current": [current], "statistics": known}
        return (strategy.resolve_artifacts(store, given) or {}).get("statistics", [])


class CuratedSchema(base_executor.BaseExecutor):
    """Writes the schema that travelled in the pipeline."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `kfp_nodes.CuratedSchema`."""
        schema = _single(output_dict, "schema")
        Path(schema.uri, "schema.pbtxt").write_text(exec_properties["schema_text"], encoding="utf-8")


class Notify(base_executor.BaseExecutor):
    """Posts how a run ended."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `kfp_nodes.Notify`.

        Raises:
            urllib.error.URLError: nobody answers; the node's retries are for that.
        """
        settings = json.loads(exec_properties["settings"])
        status = json.loads(exec_properties["final_status"] or "{}")
        state = str(status.get("state", "UNKNOWN"))
        if settings["when"] == "failure" and state in ("COMPLETE", "SUCCEEDED", "CACHED"):
            return
        run = str(status.get("pipelineJobResourceName", ""))
        pipeline = exec_properties["pipeline"]
        body = {
            "pipeline": pipeline,
            "run": run,
            "state": state,
            "text": f"{pipeline}: run {run or '(unnamed)'} ended as {state}",
        }
        request = urllib.request.Request(
            settings["url"], json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=settings["timeout_s"]):
            pass

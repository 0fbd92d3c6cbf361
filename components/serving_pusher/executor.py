"""Executor of the Pusher node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfx import types
from tfx.components.util import model_utils
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from components.serving.servable import version_folder
from components.serving_pusher import push

# The names that TFX's own Pusher writes.
_PUSHED_KEY = "pushed"
_DESTINATION_KEY = "pushed_destination"
_VERSION_KEY = "pushed_version"


class Executor(base_executor.BaseExecutor):
    """Pushes a servable that both validators blessed."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `component.Pusher`."""
        pushed = artifact_utils.get_single_instance(output_dict["pushed_model"])
        servable = artifact_utils.get_single_instance(input_dict["model"])
        refusal = _refusal(input_dict)
        if refusal:
            pushed.set_int_custom_property(_PUSHED_KEY, 0)
            pushed.set_string_custom_property("reason", refusal)
            Path(pushed.uri, "NOT_PUSHED").write_text(refusal)
            return
        root = Path(exec_properties["serving_root"])
        context = self._context
        stamp = {"run": context.pipeline_run_id or "", "servable": str(servable.id)}
        version = push.push(version_folder(servable.uri), root, stamp)
        pushed.set_int_custom_property(_PUSHED_KEY, 1)
        pushed.set_string_custom_property(_DESTINATION_KEY, str(root / str(version)))
        pushed.set_string_custom_property(_VERSION_KEY, str(version))
        Path(pushed.uri, "PUSHED").write_text(str(root / str(version)))


def _refusal(input_dict: dict[str, list[types.Artifact]]) -> str:
    """Why the model may not be pushed; empty when it may."""
    evaluation = artifact_utils.get_single_instance(input_dict["model_blessing"])
    if not model_utils.is_model_blessed(evaluation):
        return f"evaluation: {evaluation.get_string_custom_property('blessing_message')}"
    infra = artifact_utils.get_single_instance(input_dict["infra_blessing"])
    if not model_utils.is_infra_validated(infra):
        return f"infra validation: {infra.get_string_custom_property('message')}"
    return ""

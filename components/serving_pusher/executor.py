"""Executor of the Pusher node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tfx import types
from tfx.components.util import model_utils
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from components.serving import examples
from components.serving.client import ModelClient
from components.serving_pusher import canary, deliver, warmup

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
        """See `component.Pusher`.

        Raises:
            PushError: the root or a mirror cannot be written, or the configured
                server does not serve what was pushed.
        """
        pushed = artifact_utils.get_single_instance(output_dict["pushed_model"])
        refusal = _refusal(input_dict)
        if refusal:
            pushed.set_int_custom_property(_PUSHED_KEY, 0)
            pushed.set_string_custom_property("reason", refusal)
            Path(pushed.uri, "NOT_PUSHED").write_text(refusal)
            return
        delivery = _delivery(input_dict, exec_properties, self._context.pipeline_run_id or "")
        done = deliver.deliver(delivery, _server(exec_properties))
        folder = str(delivery.root / str(done.version))
        if not done.new:
            pushed.set_int_custom_property(_PUSHED_KEY, 0)
            pushed.set_string_custom_property("in_service_as", str(done.version))
            Path(pushed.uri, "NOT_PUSHED").write_text(f"in service already: {folder}")
            return
        pushed.set_int_custom_property(_PUSHED_KEY, 1)
        pushed.set_string_custom_property(_DESTINATION_KEY, folder)
        pushed.set_string_custom_property(_VERSION_KEY, str(done.version))
        Path(pushed.uri, "PUSHED").write_text(folder)


def _delivery(
    input_dict: dict[str, list[types.Artifact]], exec_properties: dict[str, Any], run: str
) -> deliver.Delivery:
    servable = artifact_utils.get_single_instance(input_dict["model"])
    origin = deliver.Origin(
        model=exec_properties["model_name"],
        run=run,
        servable_id=servable.id,
        chosen=deliver.chosen_of(artifact_utils.get_single_uri(input_dict["rewrite_report"])),
        metrics=deliver.metrics_of(artifact_utils.get_single_uri(input_dict["evaluation"])),
    )
    return deliver.Delivery(
        servable_uri=servable.uri,
        root=Path(exec_properties["serving_root"]),
        origin=origin,
        records=examples.read_split(
            artifact_utils.get_single_uri(input_dict["examples"]),
            exec_properties["split"],
            warmup.MAX_EXAMPLES,
        ),
        raw_features=json.loads(exec_properties["raw_features"]),
        mirrors=json.loads(exec_properties["mirrors"]),
    )


def _server(exec_properties: dict[str, Any]) -> canary.Server | None:
    """The server to ask after the push; None where none is configured."""
    settings = json.loads(exec_properties["server"])
    if settings is None:
        return None
    return canary.Server(
        client=ModelClient.at(settings["url"]),
        model=settings["model"],
        timeout_s=settings["timeout_s"],
        tolerance=settings["tolerance"],
    )


def _refusal(input_dict: dict[str, list[types.Artifact]]) -> str:
    """Why the model may not be pushed; empty when it may."""
    evaluation = artifact_utils.get_single_instance(input_dict["model_blessing"])
    if not model_utils.is_model_blessed(evaluation):
        return f"evaluation: {evaluation.get_string_custom_property('blessing_message')}"
    infra = artifact_utils.get_single_instance(input_dict["infra_blessing"])
    if not model_utils.is_infra_validated(infra):
        return f"infra validation: {infra.get_string_custom_property('message')}"
    return ""

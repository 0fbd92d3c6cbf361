"""Pusher: a blessed servable becomes the next version of a serving root."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel, channel_utils, component_spec, standard_artifacts

from components.artifacts import RewriteReport
from components.serving_pusher import executor


class PusherSpec(component_spec.ComponentSpec):
    PARAMETERS = {
        "serving_root": component_spec.ExecutionParameter(type=str),
        "model_name": component_spec.ExecutionParameter(type=str),
        "split": component_spec.ExecutionParameter(type=str),
        "raw_features": component_spec.ExecutionParameter(type=str),
        "mirrors": component_spec.ExecutionParameter(type=str),
        "server": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "model_blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
        "infra_blessing": component_spec.ChannelParameter(type=standard_artifacts.InfraBlessing),
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        "evaluation": component_spec.ChannelParameter(type=standard_artifacts.ModelEvaluation),
        "rewrite_report": component_spec.ChannelParameter(type=RewriteReport),
    }
    OUTPUTS = {"pushed_model": component_spec.ChannelParameter(type=standard_artifacts.PushedModel)}


class Pusher(base_component.BaseComponent):
    """Pushes where both blessings allow it; otherwise records the reason.

    Outputs:
        pushed_model: TFX's PushedModel: custom properties `pushed` (0 or 1),
            `pushed_destination`, `pushed_version`; or `reason`; or `in_service_as`,
            the version that was there already.
    """

    SPEC_CLASS = PusherSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        model: channel.BaseChannel,
        model_blessing: channel.BaseChannel,
        infra_blessing: channel.BaseChannel,
        examples: channel.BaseChannel,
        evaluation: channel.BaseChannel,
        rewrite_report: channel.BaseChannel,
        serving_root: str,
        model_name: str,
        split: str,
        raw_features: Mapping[str, str],
        mirrors: Sequence[str],
        server: Mapping[str, Any] | None,
    ) -> None:
        """Makes the node.

        Args:
            model: the servable.
            model_blessing: the Evaluator's.
            infra_blessing: the InfraValidator's.
            examples: raw Examples; a few go with the model, to warm it up.
            evaluation: the Evaluator's results, for the manifest.
            rewrite_report: the Rewriter's, for the manifest.
            serving_root: `serving/<model>`.
            model_name: the model's name.
            split: the split that examples are taken from.
            raw_features: signature -> the feature of the Examples that it takes.
            mirrors: URLs of file systems that hold copies of the serving root.
            server: `url`, `model`, `timeout_s` and `tolerance` of the server that
                must serve the version; None to ask none.
        """
        super().__init__(
            PusherSpec(
                model=model,
                model_blessing=model_blessing,
                infra_blessing=infra_blessing,
                examples=examples,
                evaluation=evaluation,
                rewrite_report=rewrite_report,
                serving_root=serving_root,
                model_name=model_name,
                split=split,
                raw_features=json.dumps(raw_features, sort_keys=True),
                mirrors=json.dumps(list(mirrors)),
                server=json.dumps(server, sort_keys=True),
                pushed_model=channel_utils.as_channel([standard_artifacts.PushedModel()]),
            )
        )

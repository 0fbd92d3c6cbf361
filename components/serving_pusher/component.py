"""Pusher: a blessed servable becomes the next version of a serving root."""

from __future__ import annotations

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel, channel_utils, component_spec, standard_artifacts

from components.serving_pusher import executor


class PusherSpec(component_spec.ComponentSpec):
    PARAMETERS = {"serving_root": component_spec.ExecutionParameter(type=str)}
    INPUTS = {
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "model_blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
        "infra_blessing": component_spec.ChannelParameter(type=standard_artifacts.InfraBlessing),
    }
    OUTPUTS = {"pushed_model": component_spec.ChannelParameter(type=standard_artifacts.PushedModel)}


class Pusher(base_component.BaseComponent):
    """Pushes where both blessings allow it; otherwise records the reason.

    Outputs:
        pushed_model: TFX's PushedModel: custom properties `pushed` (0 or 1),
            `pushed_destination`, `pushed_version`, or `reason`.
    """

    SPEC_CLASS = PusherSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        model: channel.BaseChannel,
        model_blessing: channel.BaseChannel,
        infra_blessing: channel.BaseChannel,
        serving_root: str,
    ) -> None:
        super().__init__(
            PusherSpec(
                model=model,
                model_blessing=model_blessing,
                infra_blessing=infra_blessing,
                serving_root=serving_root,
                pushed_model=channel_utils.as_channel([standard_artifacts.PushedModel()]),
            )
        )

"""InfraValidator: proves that the bytes to be pushed load in a fresh process and answer as judged.

TFX's own node of this name works with Docker or Kubernetes only, and its
choice of model servers is closed; this one writes the same InfraBlessing.
"""

from __future__ import annotations

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel, channel_utils, component_spec, standard_artifacts

from components.artifacts import RewriteReport
from components.infra_validator import executor


class InfraValidatorSpec(component_spec.ComponentSpec):
    PARAMETERS = {
        "split": component_spec.ExecutionParameter(type=str),
        "examples_count": component_spec.ExecutionParameter(type=int),
        "timeout_s": component_spec.ExecutionParameter(type=float),
    }
    INPUTS = {
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        "rewrite_report": component_spec.ChannelParameter(type=RewriteReport),
    }
    OUTPUTS = {"blessing": component_spec.ChannelParameter(type=standard_artifacts.InfraBlessing)}


class InfraValidator(base_component.BaseComponent):
    """Sends real examples to the servable in a process of its own.

    Outputs:
        blessing: TFX's InfraBlessing, with the custom property `message`.
    """

    SPEC_CLASS = InfraValidatorSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        model: channel.BaseChannel,
        examples: channel.BaseChannel,
        rewrite_report: channel.BaseChannel,
        split: str,
        examples_count: int,
        timeout_s: float,
    ) -> None:
        super().__init__(
            InfraValidatorSpec(
                model=model,
                examples=examples,
                rewrite_report=rewrite_report,
                split=split,
                examples_count=examples_count,
                timeout_s=timeout_s,
                blessing=channel_utils.as_channel([standard_artifacts.InfraBlessing()]),
            )
        )

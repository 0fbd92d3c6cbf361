"""InfraValidator: proves that the bytes to be pushed load in a fresh process and answer as judged.

TFX's own node of this name works with Docker or Kubernetes only, and its
choice of model servers is closed; this one writes the same InfraBlessing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel, channel_utils, component_spec, standard_artifacts

from components.artifacts import RewriteReport
from components.infra_validator import executor
from components.rewriter.catalogue import Target


class InfraValidatorSpec(component_spec.ComponentSpec):
    PARAMETERS = {
        "split": component_spec.ExecutionParameter(type=str),
        "target": component_spec.ExecutionParameter(type=str),
        "examples_count": component_spec.ExecutionParameter(type=int),
        "raw_features": component_spec.ExecutionParameter(type=str),
        "timeout_s": component_spec.ExecutionParameter(type=float),
        "max_p99_ms": component_spec.ExecutionParameter(type=float),
        "max_memory_mb": component_spec.ExecutionParameter(type=float),
    }
    INPUTS = {
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        "rewrite_report": component_spec.ChannelParameter(type=RewriteReport),
    }
    OUTPUTS = {"blessing": component_spec.ChannelParameter(type=standard_artifacts.InfraBlessing)}


class InfraValidator(base_component.BaseComponent):
    """Sends real examples to a real server that has the servable loaded, and measures it.

    Outputs:
        blessing: TFX's InfraBlessing, with the custom properties `message` and
            `figures` (JSON), and `figures.json` in its folder.
    """

    SPEC_CLASS = InfraValidatorSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        model: channel.BaseChannel,
        examples: channel.BaseChannel,
        rewrite_report: channel.BaseChannel,
        target: Target,
        split: str,
        raw_features: Mapping[str, str],
        examples_count: int,
        timeout_s: float,
        max_p99_ms: float | None,
        max_memory_mb: float | None,
    ) -> None:
        """Makes the node.

        Args:
            model: the servable.
            examples: raw Examples.
            rewrite_report: the Rewriter's, with the judged scores.
            target: what is to load the servable.
            split: the split that was judged.
            raw_features: signature -> the feature of the Examples that it takes.
            examples_count: how many are sent.
            timeout_s: for starting the server and loading.
            max_p99_ms: 99th percentile of single requests; None for no limit.
            max_memory_mb: of the server's process, in MiB; None for no limit.
        """
        super().__init__(
            InfraValidatorSpec(
                model=model,
                examples=examples,
                rewrite_report=rewrite_report,
                target=target,
                split=split,
                examples_count=examples_count,
                raw_features=json.dumps(raw_features, sort_keys=True),
                timeout_s=timeout_s,
                max_p99_ms=max_p99_ms or 0.0,
                max_memory_mb=max_memory_mb or 0.0,
                blessing=channel_utils.as_channel([standard_artifacts.InfraBlessing()]),
            )
        )

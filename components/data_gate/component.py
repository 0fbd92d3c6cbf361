"""DataGate: TFX's ExampleValidator writes anomalies down; this node stops the run on them."""

from __future__ import annotations

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel, channel_utils, component_spec, standard_artifacts

from components.artifacts import ValidationReport
from components.data_gate import executor


class DataGateSpec(component_spec.ComponentSpec):
    PARAMETERS: dict[str, component_spec.ExecutionParameter] = {}
    INPUTS = {"anomalies": component_spec.ChannelParameter(type=standard_artifacts.ExampleAnomalies)}
    OUTPUTS = {"report": component_spec.ChannelParameter(type=ValidationReport)}


class DataGate(base_component.BaseComponent):
    """Fails when there are anomalies; nodes that need sound data are put behind it."""

    SPEC_CLASS = DataGateSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(self, anomalies: channel.BaseChannel) -> None:
        super().__init__(
            DataGateSpec(anomalies=anomalies, report=channel_utils.as_channel([ValidationReport()]))
        )

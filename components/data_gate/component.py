"""DataGate: TFX's ExampleValidator writes anomalies down; this node stops the run on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel, channel_utils, component_spec, standard_artifacts

from components.artifacts import ValidationReport
from components.data_gate import executor


class DataGateSpec(component_spec.ComponentSpec):
    PARAMETERS = {"settings": component_spec.ExecutionParameter(type=str)}
    INPUTS = {
        "anomalies": component_spec.ChannelParameter(type=standard_artifacts.ExampleAnomalies),
        "statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "schema": component_spec.ChannelParameter(type=standard_artifacts.Schema),
        "previous_statistics": component_spec.ChannelParameter(
            type=standard_artifacts.ExampleStatistics, optional=True
        ),
    }
    OUTPUTS = {"report": component_spec.ChannelParameter(type=ValidationReport)}


class DataGate(base_component.BaseComponent):
    """Fails on anomalies, drift and skew; nodes that need sound data are put behind it.

    Outputs:
        report: `report.json` with the measured shifts of every feature.
    """

    SPEC_CLASS = DataGateSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        anomalies: channel.BaseChannel,
        statistics: channel.BaseChannel,
        schema: channel.BaseChannel,
        previous_statistics: channel.BaseChannel,
        settings: Mapping[str, Any],
    ) -> None:
        """Makes the node.

        Args:
            anomalies: of ExampleValidator.
            statistics: of StatisticsGen, all splits.
            schema: inferred or curated.
            previous_statistics: of earlier data; may resolve to none.
            settings: `fail_on` (see `gate.chosen_kinds`), `drift` and `skew` (each
                `default` and `features`), `free_text` (features of which unseen values are
                no anomaly), `one_value` (whether a column may hold no lists) but of `ignored` ones, and
                what an error advises: `remedy` of anomalies, `remedy_of_shifts`, `remedy_of_lists`.
        """
        super().__init__(
            DataGateSpec(
                anomalies=anomalies,
                statistics=statistics,
                schema=schema,
                previous_statistics=previous_statistics,
                settings=json.dumps(settings, sort_keys=True),
                report=channel_utils.as_channel([ValidationReport()]),
            )
        )

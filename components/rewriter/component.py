"""Rewriter: a trained model in, the best qualified servable out.

It stands before the Evaluator, so that the bytes that are blessed are the
bytes that are served.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import channel, channel_utils, component_spec, standard_artifacts

from components.artifacts import RewriteReport
from components.rewriter import executor
from components.rewriter.base import Contract


class RewriterSpec(component_spec.ComponentSpec):
    PARAMETERS = {
        "rewrite": component_spec.ExecutionParameter(type=str),
        "contract": component_spec.ExecutionParameter(type=str),
        "split": component_spec.ExecutionParameter(type=str),
        "calibration_split": component_spec.ExecutionParameter(type=str),
        "slices": component_spec.ExecutionParameter(type=str),
        "label": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
    }
    OUTPUTS = {
        "servable": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "report": component_spec.ChannelParameter(type=RewriteReport),
    }


class Rewriter(base_component.BaseComponent):
    """Builds candidates, measures them on a split, chooses one.

    Outputs:
        servable: a version folder and `servable.json`; custom properties
            `trained_model_id`, `technique`, `reason`, `target`.
        report: `candidates.json` with every candidate's figures and verdict,
            `judged.npy`, the chosen one's answers, and `candidates/<name>/`,
            the best ones where some are to be kept.
    """

    SPEC_CLASS = RewriterSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        model: channel.BaseChannel,
        examples: channel.BaseChannel,
        rewrite: Mapping[str, Any],
        contract: Contract,
        split: str,
        calibration_split: str,
        label: str,
        slices: Sequence[str],
    ) -> None:
        """Makes the node.

        Args:
            model: the trained model.
            examples: raw Examples.
            rewrite: the experiment's `rewrite:`.
            contract: the names that the model's export uses.
            split: the split that candidates are judged on.
            calibration_split: the split that int8 ranges are measured on.
            label: label feature.
            slices: features whose values make slices.
        """
        super().__init__(
            RewriterSpec(
                model=model,
                examples=examples,
                rewrite=json.dumps(rewrite, sort_keys=True),
                contract=contract.to_json(),
                split=split,
                calibration_split=calibration_split,
                label=label,
                slices=json.dumps(list(slices)),
                servable=channel_utils.as_channel([standard_artifacts.Model()]),
                report=channel_utils.as_channel([RewriteReport()]),
            )
        )

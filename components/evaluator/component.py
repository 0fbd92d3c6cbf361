"""Evaluator: TFMA's metrics, slices, thresholds and blessing, for any servable format."""

from __future__ import annotations

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import channel, channel_utils, component_spec, standard_artifacts

from components.evaluator import executor


class EvaluatorSpec(component_spec.ComponentSpec):
    PARAMETERS = {
        "eval_config": component_spec.ExecutionParameter(type=str),
        "split": component_spec.ExecutionParameter(type=str),
        "label": component_spec.ExecutionParameter(type=str),
        "engine": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "baseline_model": component_spec.ChannelParameter(type=standard_artifacts.Model, optional=True),
    }
    OUTPUTS = {
        "evaluation": component_spec.ChannelParameter(type=standard_artifacts.ModelEvaluation),
        "blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
    }


class Evaluator(base_beam_component.BaseBeamComponent):
    """Evaluates a servable on one split.

    Outputs:
        evaluation: TFMA's result files, `summary.json` and `confusion.jsonl`.
        blessing: TFX's ModelBlessing.
    """

    SPEC_CLASS = EvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: channel.BaseChannel,
        model: channel.BaseChannel,
        baseline_model: channel.BaseChannel,
        eval_config: str,
        split: str,
        label: str,
        engine: str,
    ) -> None:
        """Makes the node.

        Args:
            examples: raw Examples.
            model: the servable.
            baseline_model: the servable to compare with; may resolve to none.
            eval_config: JSON of tfma.EvalConfig with the models `candidate` and
                `baseline`, and the label key `label_id`.
            split: the split to evaluate on.
            label: label feature, a string.
            engine: `tfma`, `vectorized`, or `auto`; see `analyze.analyze`.
        """
        super().__init__(
            EvaluatorSpec(
                examples=examples,
                model=model,
                baseline_model=baseline_model,
                eval_config=eval_config,
                split=split,
                label=label,
                engine=engine,
                evaluation=channel_utils.as_channel([standard_artifacts.ModelEvaluation()]),
                blessing=channel_utils.as_channel([standard_artifacts.ModelBlessing()]),
            )
        )

"""Executor of the Evaluator node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfx import types
from tfx.components.evaluator import constants
from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact_utils

from components.evaluator import analyze
from components.evaluator.predict import Models


class Executor(base_beam_executor.BaseBeamExecutor):
    """Evaluates a servable, and a baseline where there is one; blesses or does not."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `component.Evaluator`."""
        candidate = artifact_utils.get_single_instance(input_dict["model"])
        baselines = input_dict.get("baseline_model") or []
        models = Models(candidate.uri, baselines[0].uri if baselines else "")
        config = analyze.parse_config(exec_properties["eval_config"], has_baseline=bool(baselines))
        evaluation = artifact_utils.get_single_uri(output_dict["evaluation"])
        examples = artifact_utils.get_single_uri(input_dict["examples"])
        files = sorted(map(str, Path(examples, f"Split-{exec_properties['split']}").glob("*")))
        with self._make_beam_pipeline() as pipeline:
            engine = analyze.analyze(
                pipeline,
                files,
                models,
                config,
                exec_properties["label"],
                evaluation,
                exec_properties["engine"],
            )
        summary = {**analyze.summarize(evaluation, has_baseline=bool(baselines)), "engine": engine}
        analyze.write_summary(evaluation, summary)
        blessing = artifact_utils.get_single_instance(output_dict["blessing"])
        _bless(blessing, candidate, baselines, summary)


def _bless(
    blessing: types.Artifact,
    candidate: types.Artifact,
    baselines: list[types.Artifact],
    summary: dict[str, Any],
) -> None:
    """Writes the blessing as TFX's own Evaluator does, so that TFX's readers understand it."""
    blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY, candidate.uri)
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY, candidate.id)
    for baseline in baselines:
        blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY, baseline.uri)
        blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_ID_KEY, baseline.id)
    blessed = summary["blessed"]
    blessing.set_int_custom_property(
        constants.ARTIFACT_PROPERTY_BLESSED_KEY,
        constants.BLESSED_VALUE if blessed else constants.NOT_BLESSED_VALUE,
    )
    message = "; ".join(summary["failures"])
    blessing.set_string_custom_property(constants.ARTIFACT_PROPERTY_BLESSING_MESSAGE_KEY, message)
    name = constants.BLESSED_FILE_NAME if blessed else constants.NOT_BLESSED_FILE_NAME
    Path(blessing.uri, name).write_text(message)

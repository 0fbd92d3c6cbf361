"""Executor of the Rewriter node."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from components.rewriter import rewrite
from components.rewriter.choose import Policy


class Executor(base_executor.BaseExecutor):
    """Builds candidates, judges them, hands on the chosen servable."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `component.Rewriter`."""
        model = artifact_utils.get_single_instance(input_dict["model"])
        settings = json.loads(exec_properties["rewrite"])
        servable = artifact_utils.get_single_instance(output_dict["servable"])
        report = artifact_utils.get_single_instance(output_dict["report"])
        with tempfile.TemporaryDirectory(dir=self._get_tmp_dir()) as scratch:
            job = rewrite.Job(
                model_uri=model.uri,
                examples_uri=artifact_utils.get_single_uri(input_dict["examples"]),
                split=exec_properties["split"],
                calibration_split=exec_properties["calibration_split"],
                label=exec_properties["label"],
                slices=json.loads(exec_properties["slices"]),
                contract=exec_properties["contract"],
                candidates=None if settings["candidates"] == "auto" else settings["candidates"],
                target=settings["target"],
                policy=Policy.from_json(exec_properties["rewrite"]),
                max_examples=settings["max_examples"],
                limits=rewrite.limits(settings["candidate_timeout_s"], settings["candidate_memory_mb"]),
                keep=settings["keep"],
                scratch=Path(scratch),
            )
            outcome = rewrite.rewrite(job)
            rewrite.write_servable(job, outcome, servable.uri)
            rewrite.write_report(job, outcome, report.uri)
        servable.set_int_custom_property("trained_model_id", model.id)
        servable.set_string_custom_property("technique", outcome.chosen)
        servable.set_string_custom_property("reason", outcome.reason)
        servable.set_string_custom_property("target", job.target)

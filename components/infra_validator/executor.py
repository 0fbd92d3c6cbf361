"""Executor of the InfraValidator node."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from components.infra_validator import validate, worker
from components.rewriter.rewrite import read_judged, read_places, read_tolerance

# The names that TFX's own InfraValidator writes, and its Pusher reads.
_BLESSED_FILE = "INFRA_BLESSED"
_NOT_BLESSED_FILE = "INFRA_NOT_BLESSED"
_BLESSED_KEY = "blessed"


class Executor(base_executor.BaseExecutor):
    """Blesses a servable that loads elsewhere and answers as it was judged."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `component.InfraValidator`."""
        report_uri = artifact_utils.get_single_uri(input_dict["rewrite_report"])
        expected = validate.Expected(
            read_judged(report_uri), read_tolerance(report_uri), exec_properties["target"]
        )
        with tempfile.TemporaryDirectory(dir=self._get_tmp_dir()) as scratch:
            request = worker.Request(
                servable_uri=artifact_utils.get_single_uri(input_dict["model"]),
                examples_uri=artifact_utils.get_single_uri(input_dict["examples"]),
                split=exec_properties["split"],
                places=read_places(report_uri)[: exec_properties["examples_count"]],
                raw_features=json.loads(exec_properties["raw_features"]),
                folder=Path(scratch),
            )
            verdict = validate.validate(request, expected, _limits(exec_properties))
        _bless(artifact_utils.get_single_instance(output_dict["blessing"]), verdict)


def _limits(exec_properties: dict[str, Any]) -> validate.Limits:
    return validate.Limits(
        seconds=exec_properties["timeout_s"],
        # Execution properties have no "none"; no limit is 0.
        max_p99_ms=exec_properties["max_p99_ms"] or None,
        max_memory_mb=exec_properties["max_memory_mb"] or None,
    )


def _bless(blessing: types.Artifact, verdict: validate.Verdict) -> None:
    """Writes the blessing as TFX's own node does, so that TFX's readers understand it."""
    blessing.set_int_custom_property(_BLESSED_KEY, int(not verdict.faults))
    blessing.set_string_custom_property("message", "; ".join(verdict.faults))
    blessing.set_string_custom_property("figures", json.dumps(dict(verdict.figures), sort_keys=True))
    verdict.write(blessing.uri)
    name = _NOT_BLESSED_FILE if verdict.faults else _BLESSED_FILE
    Path(blessing.uri, name).write_text("\n".join(verdict.faults))

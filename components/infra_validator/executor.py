"""Executor of the InfraValidator node."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from components.infra_validator import validate, worker
from components.rewriter.rewrite import read_judged

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
        judged = read_judged(artifact_utils.get_single_uri(input_dict["rewrite_report"]))
        with tempfile.TemporaryDirectory(dir=self._get_tmp_dir()) as scratch:
            request = worker.Request(
                servable_uri=artifact_utils.get_single_uri(input_dict["model"]),
                examples_uri=artifact_utils.get_single_uri(input_dict["examples"]),
                split=exec_properties["split"],
                count=exec_properties["examples_count"],
                folder=Path(scratch),
            )
            faults = validate.validate(request, judged, seconds=exec_properties["timeout_s"])
        blessing = artifact_utils.get_single_instance(output_dict["blessing"])
        blessing.set_int_custom_property(_BLESSED_KEY, int(not faults))
        blessing.set_string_custom_property("message", "; ".join(faults))
        name = _NOT_BLESSED_FILE if faults else _BLESSED_FILE
        Path(blessing.uri, name).write_text("\n".join(faults))

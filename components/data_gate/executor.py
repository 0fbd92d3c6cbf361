"""Executor of the DataGate node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from components.data_gate import gate

_ANOMALIES_FILE = "SchemaDiff.pb"


class Executor(base_executor.BaseExecutor):
    """Stops the run where ExampleValidator found anomalies."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `component.DataGate`.

        Raises:
            AnomalyError: there is an anomaly.
        """
        artifact = artifact_utils.get_single_instance(input_dict["anomalies"])
        found = {
            split: _read(f"{artifact.uri}/Split-{split}/{_ANOMALIES_FILE}")
            for split in artifact_utils.decode_split_names(artifact.split_names)
        }
        gate.check(found)
        report = artifact_utils.get_single_instance(output_dict["report"])
        Path(report.uri, "report.json").write_text(json.dumps({"passed": True, "splits": sorted(found)}))


def _read(path: str) -> anomalies_pb2.Anomalies:
    with tf.io.gfile.GFile(path, "rb") as file:
        return anomalies_pb2.Anomalies.FromString(file.read())

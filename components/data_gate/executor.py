"""Executor of the DataGate node."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2
from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils

from components.data_gate import gate
from components.data_gate.drift import Limits, Shift, distances

_ANOMALIES_FILE = "SchemaDiff.pb"
_STATISTICS_FILE = "FeatureStats.pb"
_TRAIN = "train"


class Executor(base_executor.BaseExecutor):
    """Stops the run on anomalies, on drift against earlier data, and on skew between splits."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `component.DataGate`.

        Raises:
            AnomalyError: there is an anomaly, or a feature has moved too far.
        """
        settings = json.loads(exec_properties["settings"])
        anomalies = artifact_utils.get_single_instance(input_dict["anomalies"])
        splits = sorted(artifact_utils.decode_split_names(anomalies.split_names))
        fail_on = gate.chosen_kinds(settings["fail_on"])
        # Where that kind is named, and does not just come with all, it is meant.
        free_text = settings["free_text"] if gate.ALL in settings["fail_on"] else []
        findings = [
            sentence
            for split in splits
            for sentence in gate.sentences(split, _anomalies(anomalies.uri, split), fail_on, free_text)
        ]
        lists = _several_values(input_dict, splits, settings)
        shifts = _shifts(input_dict, splits, settings)
        moved = [shift.sentence() for shift in shifts if shift.too_far]
        remedies = {
            "remedy_of_lists": lists,
            "remedy": findings,
            "remedy_of_shifts": moved,
        }
        remedy = " ".join(settings[name] for name, found in remedies.items() if found)
        gate.check([*lists, *findings, *moved], ", ".join(splits), remedy)
        report = artifact_utils.get_single_instance(output_dict["report"])
        _write_report(report.uri, splits, shifts)


def _several_values(
    input_dict: dict[str, list[types.Artifact]], splits: list[str], settings: dict[str, Any]
) -> list[str]:
    """Columns of lists, where the model takes one value of each."""
    if not settings["one_value"]:
        return []
    uri = artifact_utils.get_single_uri(input_dict["statistics"])
    return [
        sentence
        for split in splits
        for sentence in gate.several_values(split, _statistics(uri, split), settings["ignored"])
    ]


def _shifts(
    input_dict: dict[str, list[types.Artifact]], splits: list[str], settings: dict[str, Any]
) -> list[Shift]:
    """Drift of the training split against the previous one, and skew of the other splits."""
    statistics = artifact_utils.get_single_uri(input_dict["statistics"])
    schema = _schema(artifact_utils.get_single_uri(input_dict["schema"]))
    current = _statistics(statistics, _TRAIN)
    found = []
    previous = input_dict.get("previous_statistics") or []
    if previous:
        before = _statistics(previous[0].uri, _TRAIN)
        found += distances(current, before, schema, Limits(**settings["drift"]), "drift")
    for split in splits:
        if split != _TRAIN:
            other = _statistics(statistics, split)
            found += distances(other, current, schema, Limits(**settings["skew"]), "skew")
    return found


def _anomalies(uri: str, split: str) -> anomalies_pb2.Anomalies:
    return anomalies_pb2.Anomalies.FromString(_bytes(f"{uri}/Split-{split}/{_ANOMALIES_FILE}"))


def _statistics(uri: str, split: str) -> statistics_pb2.DatasetFeatureStatisticsList:
    data = _bytes(f"{uri}/Split-{split}/{_STATISTICS_FILE}")
    return statistics_pb2.DatasetFeatureStatisticsList.FromString(data)


def _schema(uri: str) -> schema_pb2.Schema:
    return text_format.Parse(_bytes(f"{uri}/schema.pbtxt").decode(), schema_pb2.Schema())


def _bytes(path: str) -> bytes:
    with tf.io.gfile.GFile(path, "rb") as file:
        return bytes(file.read())


def _write_report(uri: str, splits: list[str], shifts: list[Shift]) -> None:
    rows = [
        {"feature": s.feature, "kind": s.kind, "measure": s.measure, "value": s.value, "limit": s.limit}
        for s in shifts
    ]
    text = json.dumps({"passed": True, "splits": splits, "shifts": rows}, indent=1)
    Path(uri, "report.json").write_text(text)

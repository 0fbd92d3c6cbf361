"""Anomalies as sentences, and as a stop."""

from __future__ import annotations

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2

from components.data_gate import gate
from components.errors import AnomalyError


def anomalies(**features: str) -> anomalies_pb2.Anomalies:
    message = anomalies_pb2.Anomalies()
    for name, description in features.items():
        message.anomaly_info[name].description = description
    return message


def test_no_anomalies_pass() -> None:
    gate.check({"train": anomalies(), "test": anomalies()})


def test_each_anomaly_is_a_sentence_with_split_and_feature() -> None:
    with pytest.raises(AnomalyError) as caught:
        gate.check({"test": anomalies(label="Unexpected value: z"), "train": anomalies(age="Too large")})
    assert "test: feature 'label': Unexpected value: z; train: feature 'age': Too large" in str(caught.value)


def test_a_flood_is_cut_and_counted() -> None:
    with pytest.raises(AnomalyError, match="and 15 more"):
        gate.check({"train": anomalies(**{f"f{number}": "bad" for number in range(20)})})


def test_missing_data_is_an_anomaly() -> None:
    with pytest.raises(AnomalyError, match="test: the split holds no data"):
        gate.check({"test": anomalies_pb2.Anomalies(data_missing=True)})

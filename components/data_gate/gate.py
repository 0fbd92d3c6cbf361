"""Turns TFDV anomalies into sentences, and into a stop.

check(anomalies_by_split)      # raises AnomalyError
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow_metadata.proto.v0 import anomalies_pb2

from components.errors import AnomalyError

_MAX_SHOWN = 5


def sentences(split: str, anomalies: anomalies_pb2.Anomalies) -> list[str]:
    """One sentence per anomaly: split, feature, what was expected and seen."""
    found = []
    if anomalies.HasField("dataset_anomaly_info"):
        found.append(f"{split}: {anomalies.dataset_anomaly_info.description}")
    for feature, info in sorted(anomalies.anomaly_info.items()):
        found.append(f"{split}: feature {feature!r}: {info.description}")
    if anomalies.data_missing:
        found.append(f"{split}: the split holds no data")
    return found


def check(anomalies_by_split: Mapping[str, anomalies_pb2.Anomalies]) -> None:
    """Raises an AnomalyError that lists what was found, if anything was."""
    found = [
        line for split in sorted(anomalies_by_split) for line in sentences(split, anomalies_by_split[split])
    ]
    if not found:
        return
    shown = "; ".join(found[:_MAX_SHOWN])
    more = f"; and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
    raise AnomalyError(
        f"The data is not what its schema says: {shown}{more}",
        place=", ".join(sorted(anomalies_by_split)),
        remedy="Mend the data; the schema is inferred from the training split.",
    )

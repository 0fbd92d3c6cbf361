"""How far one set of statistics has moved from another, worked out in a process of its own.

    sentences = moved(now_uri, before_uri, schema_uri, limits)

TFDV and what it imports stay out of the caller.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components import subprocesses

_SPLIT = "train"
_SECONDS = 600.0


@dataclass(frozen=True)
class Task:
    """Folders of two ExampleStatistics and a Schema, limits by feature, and the file for the result."""

    now: str
    before: str
    schema: str
    default: float | None
    features: Mapping[str, float]
    output: str


def moved(
    now: str, before: str, schema: str, default: float | None, features: Mapping[str, float]
) -> list[str]:
    """What has moved too far, in sentences, the farthest first.

    Raises:
        WorkerFailed: the statistics cannot be read.
    """
    with tempfile.TemporaryDirectory() as scratch:
        task = Task(now, before, schema, default, features, str(Path(scratch, "moved.json")))
        subprocesses.run(measure, task, limits=subprocesses.Limits(seconds=_SECONDS))
        return list(json.loads(Path(task.output).read_text()))


def measure(task: Task) -> None:
    """Writes the sentences."""
    import tfx.components  # noqa: F401  TFDV has to come after it
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

    from components.data_gate import drift

    def statistics(folder: str) -> statistics_pb2.DatasetFeatureStatisticsList:
        content = Path(folder, f"Split-{_SPLIT}", "FeatureStats.pb").read_bytes()
        return statistics_pb2.DatasetFeatureStatisticsList.FromString(content)

    schema = text_format.Parse(Path(task.schema, "schema.pbtxt").read_text(), schema_pb2.Schema())
    limits = drift.Limits(task.default, task.features)
    found = drift.distances(statistics(task.now), statistics(task.before), schema, limits, "drift")
    far = sorted((shift for shift in found if shift.too_far), key=lambda shift: -shift.value)
    Path(task.output).write_text(json.dumps([shift.sentence() for shift in far]))

"""Requests that a server sends itself before a new version takes traffic.

write(folder, requests("digits", raw_inputs(servable, records, {"predict_image": "image"})))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from components.serving.servable import Signature

PATH = Path("assets.extra", "tf_serving_warmup_requests")
"""Where TensorFlow Serving looks for them; it takes at most 1,000."""

MAX_EXAMPLES = 8
_MAX_BYTES = 4 << 20


def choose(records: Sequence[bytes]) -> list[bytes]:
    """The first few records that are of 4 MiB together; at least one."""
    chosen: list[bytes] = []
    size = 0
    for record in records[:MAX_EXAMPLES]:
        size += len(record)
        if chosen and size > _MAX_BYTES:
            break
        chosen.append(record)
    return chosen


def requests(model: str, inputs: Mapping[Signature, Sequence[Any]]) -> list[bytes]:
    """Serialized PredictionLogs: each input of each signature alone, then all as one batch.

    Args:
        model: its name.
        inputs: signature -> raw inputs, or the rows of a tensor.
    """
    logs = []
    for signature, raw in inputs.items():
        batches = [*([item] for item in raw), list(raw)] if len(raw) > 1 else [list(raw)]
        logs += [_log(model, signature, batch) for batch in batches]
    return logs


def write(folder: Path, logs: Iterable[bytes]) -> None:
    """Writes the warm-up file of a version folder."""
    path = folder / PATH
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for log in logs:
            writer.write(log)


def _log(model: str, signature: Signature, batch: list[Any]) -> bytes:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature.name
    request.inputs[signature.input].CopyFrom(tf.make_tensor_proto(tf.constant(batch)))
    log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
    return bytes(log.SerializeToString(deterministic=True))

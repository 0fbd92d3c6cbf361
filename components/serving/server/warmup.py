"""Sends a version its recorded requests before it takes traffic."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from components.serving.server import inference, tensors
from components.serving.server.loading import Call, Model
from components.serving.server.status import invalid

FILE = Path("assets.extra", "tf_serving_warmup_requests")
MAX_REQUESTS = 1000

_log = logging.getLogger(__name__)


def warm(model: Model, folder: Path) -> int:
    """Runs the PredictionLogs of `folder`'s warm-up file (TFRecord), if it has one.

    Returns:
        How many requests were run.

    Raises:
        RequestError: there are over 1,000, or one cannot be answered.
        tf.errors.OpError: the file is damaged, or the model fails.
    """
    path = folder / FILE
    if not path.is_file():
        return 0
    count = 0
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        count += 1
        if count > MAX_REQUESTS:
            raise invalid(f"Number of warmup records exceeded the maximum allowed: {MAX_REQUESTS}")
        call = _call(model, prediction_log_pb2.PredictionLog.FromString(record))
        if call is not None:
            model.run(call)
    return count


def _call(model: Model, log: Any) -> Call | None:
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        request = log.predict_log.request
        inputs = {name: tensors.to_array(value, name) for name, value in request.inputs.items()}
        return inference.predict_call(model, request.model_spec.signature_name, inputs, request.output_filter)
    if kind == "classify_log":
        return inference.classify_call(model, log.classify_log.request)
    if kind == "regress_log":
        return inference.regress_call(model, log.regress_log.request)
    _log.warning("A warm-up request of kind %s was left out: there is no such method here", kind)
    return None

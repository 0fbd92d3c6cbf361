"""Sends real inputs to a model server by gRPC and REST, and takes the time.

grpc = Grpc(server.port)
scores, classes = grpc.predict(servable, signature, raw)
latency = measure(lambda item: grpc.predict(servable, signature, [item]), raw)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from components.errors import ServableError
from components.infra_validator.model_server import MODEL
from components.serving.client import ModelClient, ServerError
from components.serving.servable import Servable, Signature

_REQUESTS = 300
_SECONDS = 2.0
_WARM = 10

Predictions = tuple[np.ndarray, list[list[str]]]
"""(B, C) scores, and B rows of class names; of a regression (B,) and B empty rows."""


@dataclass(frozen=True)
class Latency:
    """Times of single requests, one at a time, in milliseconds."""

    requests: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Grpc:
    """TensorFlow Serving's PredictionService on this machine, with the stock client."""

    def __init__(self, port: int, timeout_s: float = 60.0) -> None:
        # Of its own: a proxy in the environment must not be asked for loopback.
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)
        self._timeout_s = timeout_s

    def predict(self, servable: Servable, signature: Signature, raw: Sequence[bytes]) -> Predictions:
        """One request with all of `raw`.

        Raises:
            ServableError: the server refused, or its answer lacks an output.
        """
        outputs = self.send(self.request(signature, raw)).outputs
        try:
            scores = tf.make_ndarray(outputs[servable.scores])
            if not servable.class_names:
                return scores, [[] for _ in scores]
            classes = tf.make_ndarray(outputs[servable.classes])
        except (KeyError, TypeError, ValueError) as error:
            raise ServableError(f"by gRPC, an output cannot be read: {error}") from error
        return scores, [[name.decode() for name in row] for row in np.atleast_2d(classes)]

    def request(self, signature: Signature, raw: Sequence[bytes]) -> Any:
        """The message for a batch."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name = MODEL
        request.model_spec.signature_name = signature.name
        request.inputs[signature.input].CopyFrom(tf.make_tensor_proto(list(raw), tf.string))
        return request

    def send(self, request: Any) -> Any:
        """Sends a message.

        Raises:
            ServableError: the server refused.
        """
        try:
            return self._stub.Predict(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            detail = str(error.details()).splitlines()[:1]
            raise ServableError(f"by gRPC, the server refused: {error.code().name} {detail}") from error

    def close(self) -> None:
        self._channel.close()


def by_rest(
    client: ModelClient, servable: Servable, signature: Signature, raw: Sequence[bytes]
) -> Predictions:
    """The same by REST.

    Raises:
        ServableError: the server refused, or its answer lacks an output.
    """
    try:
        rows = client.predict(MODEL, signature.name, signature.input, raw)
        scores = np.array([row[servable.scores] for row in rows], np.float32)
        return scores, [row[servable.classes] if servable.class_names else [] for row in rows]
    except ServerError as error:
        raise ServableError(f"by REST, {error.headline}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ServableError(f"by REST, an output cannot be read: {error}") from error


def measure(
    send: Callable[[Any], object], requests: Sequence[Any], clock: Callable[[], float] = time.perf_counter
) -> Latency:
    """Sends requests one at a time: 300, or as many as fit into 2 s, after a few that do not count.

    Args:
        send: returns when the answer is there.
        requests: sent by turns; at least one.
        clock: seconds, monotonic.
    """
    for number in range(_WARM):
        send(requests[number % len(requests)])
    began = clock()
    times: list[float] = []
    while not times or (len(times) < _REQUESTS and clock() - began < _SECONDS):
        request, sent = requests[len(times) % len(requests)], clock()
        send(request)
        times.append(1000 * (clock() - sent))
    p50, p95, p99 = np.percentile(times, [50, 95, 99])
    return Latency(len(times), float(p50), float(p95), float(p99))

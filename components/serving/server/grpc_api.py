"""PredictionService and ModelService on grpc.aio.

server = grpc_api.build(service, metrics, max_request_bytes=100 << 20)
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from tensorflow_serving.apis import (
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from components.serving.server import tensors
from components.serving.server.loading import Model
from components.serving.server.metrics import Metrics
from components.serving.server.service import Service
from components.serving.server.status import Code, as_request_error

_log = logging.getLogger(__name__)

Handler = Callable[[Any, Any, Any], Awaitable[Any]]


def build(service: Service, metrics: Metrics, max_request_bytes: int) -> grpc.aio.Server:
    """A server with both services and no port yet."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", max_request_bytes),
            ("grpc.max_send_message_length", -1),
            # Two servers on one port would each get a share of the requests.
            ("grpc.so_reuseport", 0),
        ]
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Prediction(service, metrics), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(Models(service), server)
    return server


def _answering(handler: Handler) -> Handler:
    """Turns errors into status codes, and counts what names a model."""

    @functools.wraps(handler)
    async def answer(self: Any, request: Any, context: Any) -> Any:
        try:
            return await handler(self, request, context)
        except Exception as error:
            told = as_request_error(error)
            if told.code is Code.INTERNAL:
                _log.exception("%s failed", handler.__name__)
            await context.abort(told.code, told.message)

    return answer


class Prediction(prediction_service_pb2_grpc.PredictionServiceServicer):
    """TensorFlow Serving's PredictionService; MultiInference stays UNIMPLEMENTED."""

    def __init__(self, service: Service, metrics: Metrics) -> None:
        self._service = service
        self._metrics = metrics

    def _observe(self, request: Any, method: str) -> contextlib.AbstractContextManager[None]:
        return self._metrics.observe(self._service.label(request.model_spec.name), method, "GRPC")

    @_answering
    async def Predict(self, request: Any, context: Any) -> Any:
        async def read(_: Model) -> Any:
            return {name: tensors.to_array(value, name) for name, value in request.inputs.items()}

        with self._observe(request, "Predict"):
            answer = await self._service.predict(request.model_spec, read, request.output_filter)
            return predict_pb2.PredictResponse(
                model_spec=answer.spec,
                outputs={
                    alias: tensors.to_proto(array, answer.dtypes[alias])
                    for alias, array in answer.outputs.items()
                },
            )

    @_answering
    async def Classify(self, request: Any, context: Any) -> Any:
        with self._observe(request, "Classify"):
            return await self._service.classify(request)

    @_answering
    async def Regress(self, request: Any, context: Any) -> Any:
        with self._observe(request, "Regress"):
            return await self._service.regress(request)

    @_answering
    async def GetModelMetadata(self, request: Any, context: Any) -> Any:
        return self._service.metadata(request)

    async def MultiInference(self, request: Any, context: Any) -> Any:
        await context.abort(Code.UNIMPLEMENTED, "MultiInference is not supported")


class Models(model_service_pb2_grpc.ModelServiceServicer):
    """TensorFlow Serving's ModelService."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @_answering
    async def GetModelStatus(self, request: Any, context: Any) -> Any:
        return self._service.model_status(request.model_spec)

    @_answering
    async def HandleReloadConfigRequest(self, request: Any, context: Any) -> Any:
        await self._service.reload(request)
        response = model_management_pb2.ReloadConfigResponse()
        response.status.error_code = 0
        return response

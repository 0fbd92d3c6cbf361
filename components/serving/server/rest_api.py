"""TensorFlow Serving's REST API as an ASGI application.

app = rest_api.build(service, metrics, RestSettings(...))
GET  /v1/models/M[/versions/V|/labels/L][/metadata]
POST /v1/models/M[/versions/V|/labels/L]:predict|:classify|:regress
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote

from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    model_pb2,
    regression_pb2,
)

from components.serving.server import inference, rest_json
from components.serving.server.loading import Model
from components.serving.server.metrics import Metrics
from components.serving.server.service import Service
from components.serving.server.status import Code, RequestError, as_request_error, invalid

_log = logging.getLogger(__name__)

_CHOICE = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_POST = re.compile(
    rf"/v1/models/(?P<name>[^/:]+){_CHOICE}:(?P<method>classify|regress|predict)", re.IGNORECASE
)
_GET = re.compile(rf"/v1/models(?:/(?P<name>[^/:]+))?{_CHOICE}(?P<metadata>/metadata)?", re.IGNORECASE)

_ALL_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

_INLINE_BYTES = 1 << 16
"""Larger JSON is read and written in a thread, so that other requests do not wait for it."""

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class RestSettings:
    """Limits and switches of the REST API.

    Attributes:
        max_body_bytes: after decompression too.
        timeout_s: from the headers to the answer.
        cors: whether any origin may call.
        metrics_path: where metrics are served; None for nowhere.
    """

    max_body_bytes: int
    timeout_s: float
    cors: bool = False
    metrics_path: str | None = None


class _BodyTooLarge(RequestError):
    http_status = 413


def build(service: Service, metrics: Metrics, settings: RestSettings) -> Starlette:
    """The application; below /v1/ every error has the form {"error": "..."}."""
    api = _RestApi(service, metrics, settings)
    routes = [Route("/v1/{rest:path}", api.answer, methods=_ALL_METHODS)]
    if settings.metrics_path:
        routes.append(Route(settings.metrics_path, api.metrics_page))
    cors = Middleware(
        CORSMiddleware, allow_origins=["*"], allow_methods=["POST", "GET"], allow_headers=["Content-Type"]
    )
    return Starlette(routes=routes, middleware=[cors] if settings.cors else [])


class _RestApi:
    def __init__(self, service: Service, metrics: Metrics, settings: RestSettings) -> None:
        self._service = service
        self._metrics = metrics
        self._settings = settings
        self._methods: dict[str, Callable[[Any, dict[str, Any], int], Awaitable[str]]] = {
            "predict": self._predict,
            "classify": self._classify,
            "regress": self._regress,
        }

    async def metrics_page(self, request: Request) -> Response:
        return Response(self._metrics.page(), media_type="text/plain; version=0.0.4")

    async def answer(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return Response(await self._answer(request), media_type="application/json")
        except TimeoutError:
            limit_ms = round(1000 * self._settings.timeout_s)
            return _error(RequestError(Code.DEADLINE_EXCEEDED, f"The request took longer than {limit_ms} ms"))
        except ClientDisconnect:
            return Response(status_code=499)
        except Exception as error:
            told = as_request_error(error)
            if told.code is Code.INTERNAL:
                _log.exception("%s %s failed", request.method, request.url.path)
            return _error(told)

    async def _answer(self, request: Request) -> str:
        # The path as it was sent: a name may hold an encoded slash or colon.
        path = request.scope.get("raw_path", request.url.path.encode()).decode("ascii", "replace")
        if request.method == "POST" and (match := _POST.fullmatch(path)):
            return await self._infer(_spec(match), match["method"].lower(), request)
        if request.method == "GET" and (match := _GET.fullmatch(path)):
            return self._describe(_spec(match), metadata=bool(match["metadata"]))
        raise invalid(f"Malformed request: {request.method} {path}")

    def _describe(self, spec: Any, metadata: bool) -> str:
        if not spec.name:
            raise invalid("Missing model name in request.")
        if not metadata:
            return json.dumps(_plain(self._service.model_status(spec)), indent=1)
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=spec, metadata_field=["signature_def"]
        )
        response = self._service.metadata(request)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        text = {"model_spec": _plain(response.model_spec), "metadata": {"signature_def": _plain(signatures)}}
        return json.dumps(text, indent=1)

    async def _infer(self, spec: Any, method: str, request: Request) -> str:
        # A sender that takes too long is no failure of the model's.
        raw = await self._body(request)
        with self._metrics.observe(self._service.label(spec.name), method.capitalize(), "REST"):
            body = await _offload(len(raw), rest_json.parse, raw)
            spec.signature_name = rest_json.signature_name(body)
            return await self._methods[method](spec, body, len(raw))

    async def _predict(self, spec: Any, body: dict[str, Any], size: int) -> str:
        row_form = True

        async def read(model: Model) -> inference.Inputs:
            nonlocal row_form
            signature = model.signatures.get(spec.signature_name or inference.DEFAULT_SIGNATURE)
            if signature is None:
                raise invalid(f'Serving signature name: "{spec.signature_name}" not found in signature def')
            inputs, row_form = await _offload(size, rest_json.read_inputs, body, signature)
            return inputs

        outputs = (await self._service.predict(spec, read)).outputs
        size = sum(array.nbytes for array in outputs.values())
        return await _offload(size, rest_json.write_outputs, outputs, row_form)

    async def _classify(self, spec: Any, body: dict[str, Any], size: int) -> str:
        request = classification_pb2.ClassificationRequest(model_spec=spec)
        await _offload(size, rest_json.read_examples, body, request)
        return rest_json.write_classification((await self._service.classify(request)).result)

    async def _regress(self, spec: Any, body: dict[str, Any], size: int) -> str:
        request = regression_pb2.RegressionRequest(model_spec=spec)
        await _offload(size, rest_json.read_examples, body, request)
        return rest_json.write_regression((await self._service.regress(request)).result)

    async def _body(self, request: Request) -> bytes:
        limit = self._settings.max_body_bytes
        too_large = _BodyTooLarge(Code.RESOURCE_EXHAUSTED, f"The request body is larger than {limit} bytes")
        if int(request.headers.get("content-length", 0)) > limit:
            raise too_large
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise too_large
            parts.append(part)
        body = b"".join(parts)
        if request.headers.get("content-encoding", "").lower() != "gzip":
            return body
        decompressed = await _offload(len(body), _decompress, body, limit)
        if decompressed is None:
            raise too_large
        return decompressed


def _decompress(body: bytes, limit: int) -> bytes | None:
    """The content of a gzip body; None when it is larger than `limit` bytes."""
    decompressor = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        # A few bytes can stand for gigabytes, so no more than the limit is unpacked.
        content = decompressor.decompress(body, limit + 1)
    except zlib.error as error:
        raise invalid(f"The body is not gzip as Content-Encoding says: {error}") from error
    if len(content) > limit:
        return None
    if not decompressor.eof:
        raise invalid("The gzip body ends early")
    return content


async def _offload(
    size: int, work: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs
) -> _Result:
    """Calls `work`, in a thread when it has more than 64 KiB to chew."""
    if size <= _INLINE_BYTES:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


def _spec(match: re.Match[str]) -> Any:
    spec = model_pb2.ModelSpec(name=unquote(match["name"] or ""))
    if match["version"]:
        if int(match["version"]) >= 1 << 63:
            raise invalid(f"Failed to convert version: {match['version']} to numeric.")
        spec.version.value = int(match["version"])
    if match["label"]:
        spec.version_label = unquote(match["label"])
    return spec


def _plain(message: Any) -> Any:
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def _error(error: RequestError) -> Response:
    return Response(json.dumps({"error": error.message}), error.http_status, media_type="application/json")

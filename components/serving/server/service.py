"""What both APIs do: find the version, check the request, run it, count it.

service = Service(manager, runner, Limits(...))
answer = await service.predict(model_spec, inputs, output_filter=())
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    regression_pb2,
)

from components import images
from components.serving.server import inference, text_protos
from components.serving.server.loading import Call, Model
from components.serving.server.manager import ModelManager, Version
from components.serving.server.prediction_log import PredictionLog
from components.serving.server.running import Runner
from components.serving.server.status import Code, RequestError, as_request_error, invalid


@dataclass(frozen=True)
class Prediction:
    """The outputs of a Predict request.

    Attributes:
        spec: ModelSpec with the name, version and signature that answered.
        outputs: alias -> array.
        dtypes: alias -> the signature's data type enum.
    """

    spec: Any
    outputs: dict[str, np.ndarray]
    dtypes: dict[str, int]


class Service:
    """The requests of PredictionService and ModelService, free of transport.

    Args:
        manager: knows the models.
        runner: runs them.
        limit: requests under way at most; further ones get RESOURCE_EXHAUSTED.
        check_method: Classify and Regress insist on the signature's method name.
        max_pixels: of an image in a request; 0 for no limit.
        log: takes a sample of the answers.
    """

    def __init__(
        self,
        manager: ModelManager,
        runner: Runner,
        limit: int,
        check_method: bool = False,
        max_pixels: int = images.MAX_PIXELS,
        log: PredictionLog | None = None,
    ) -> None:
        self._manager = manager
        self._runner = runner
        self._limit = limit
        self._check_method = check_method
        self._log = log
        self._max_pixels = max_pixels
        self._under_way = 0

    async def predict(
        self,
        spec: Any,
        read_inputs: Callable[[Model], Awaitable[inference.Inputs]],
        output_filter: Sequence[str] = (),
    ) -> Prediction:
        """Answers a Predict request.

        Args:
            spec: the request's ModelSpec.
            read_inputs: gives the inputs; is called with the model, since JSON
                cannot be read without its signature.
            output_filter: aliases to fetch; empty for all.

        Raises:
            RequestError: as the gRPC API documents it.
        """
        with self._lease(spec) as version:
            model = _model(version)
            inputs = await read_inputs(model)
            call = inference.predict_call(model, spec.signature_name, inputs, output_filter)
            arrays = await self._run(version, call)
            signature = model.signatures[call.signature]
            return Prediction(
                _spec(version, call.signature),
                dict(zip(call.outputs, arrays, strict=True)),
                {alias: signature.outputs[alias].dtype for alias in call.outputs},
            )

    async def classify(self, request: Any) -> Any:
        """ClassificationRequest -> ClassificationResponse.

        Raises:
            RequestError: as the gRPC API documents it.
        """
        with self._lease(request.model_spec) as version:
            call = inference.classify_call(_model(version), request, self._check_method)
            result = inference.classification_result(call, await self._run(version, call))
            return classification_pb2.ClassificationResponse(
                model_spec=_spec(version, call.signature), result=result
            )

    async def regress(self, request: Any) -> Any:
        """RegressionRequest -> RegressionResponse.

        Raises:
            RequestError: as the gRPC API documents it.
        """
        with self._lease(request.model_spec) as version:
            call = inference.regress_call(_model(version), request, self._check_method)
            result = inference.regression_result(call, await self._run(version, call))
            return regression_pb2.RegressionResponse(model_spec=_spec(version, call.signature), result=result)

    def label(self, name: str) -> str:
        """The name for metrics: any name that a client may think of must not become one."""
        return name if self._manager.knows(name) else ""

    def metadata(self, request: Any) -> Any:
        """GetModelMetadataRequest -> GetModelMetadataResponse with all signatures.

        Raises:
            RequestError: no such model, or another field than `signature_def` is asked for.
        """
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        unknown = [name for name in request.metadata_field if name != "signature_def"]
        if unknown:
            raise invalid(f"Metadata field {unknown[0]} is not supported")
        with self._lease(request.model_spec) as version:
            response = get_model_metadata_pb2.GetModelMetadataResponse(model_spec=_spec(version, ""))
            signatures = get_model_metadata_pb2.SignatureDefMap(signature_def=_model(version).signatures)
            response.metadata["signature_def"].Pack(signatures)
            return response

    def model_status(self, spec: Any) -> Any:
        """ModelSpec -> GetModelStatusResponse with every version that was seen.

        Raises:
            RequestError: no such model, version or label.
        """
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in self._manager.versions(spec.name, *_choice(spec)):
            item = response.model_version_status.add(version=version.number, state=int(version.state))
            item.status.error_code = version.error.number if version.error else 0
            item.status.error_message = version.error.message if version.error else ""
        return response

    async def reload(self, request: Any) -> None:
        """Takes over the models of a ReloadConfigRequest.

        Raises:
            RequestError: the list is not valid, a model does not load, or a label has no version.
        """
        if request.config.WhichOneof("config") != "model_config_list":
            raise invalid(
                "ServerModelConfig type not supported by HandleReloadConfigRequest. "
                "Only ModelConfigList is currently supported"
            )
        await self._manager.apply(text_protos.models_of(request.config))

    def _lease(self, spec: Any) -> Any:
        return self._manager.lease(spec.name, *_choice(spec))

    async def _run(self, version: Version, call: Call) -> list[np.ndarray]:
        if self._under_way >= self._limit:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED, f"Too many requests: {self._limit} are waiting or running already"
            )
        if self._max_pixels:
            inference.check_images(call, self._max_pixels)
        self._under_way += 1
        try:
            arrays = await self._runner.run(_model(version), call)
        except Exception as error:
            raise as_request_error(error) from error
        finally:
            self._under_way -= 1
        if self._log is not None:
            outputs = dict(zip(call.outputs, arrays, strict=True))
            self._log.note(version.name, version.number, outputs, call.inputs)
        return arrays


def _choice(spec: Any) -> tuple[int | None, str]:
    return (spec.version.value if spec.HasField("version") else None), spec.version_label


def _model(version: Version) -> Model:
    assert version.model is not None  # a leased version is loaded
    return version.model


def _spec(version: Version, signature: str) -> Any:
    spec = model_pb2.ModelSpec(name=version.name, signature_name=signature)
    spec.version.value = version.number
    return spec

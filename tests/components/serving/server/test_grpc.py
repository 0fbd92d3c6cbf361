"""The gRPC API from the outside, with the stock client stubs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from tests import bombs
from tests.components.serving.server.running_server import Clients, in_thread

Code = grpc.StatusCode


def predict_request(
    model: str, signature: str = "", outputs: Sequence[str] = (), version: int | None = None, **inputs: Any
) -> Any:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    request.output_filter.extend(outputs)
    for name, value in inputs.items():
        proto = value if isinstance(value, TensorProto) else tf.make_tensor_proto(value)
        request.inputs[name].CopyFrom(proto)
    return request


def example(**values: float) -> Any:
    features = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=[value])) for name, value in values.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


def refused(call: Any, request: Any, code: grpc.StatusCode) -> str:
    with pytest.raises(grpc.RpcError) as caught:
        call(request, timeout=30)
    assert caught.value.code() is code, caught.value
    return str(caught.value.details())


def test_predict_echoes_what_answered(server: Clients) -> None:
    response = server.predictions.Predict(predict_request("half", x=np.float32([[1.0], [2.0]])), timeout=30)
    spec = response.model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("half", 2, "serving_default")
    y = response.outputs["y"]
    assert (y.dtype, [dim.size for dim in y.tensor_shape.dim]) == (tf.float32.as_datatype_enum, [2, 1])
    # Clients read the typed field, which is where TensorFlow Serving puts values.
    assert list(y.float_val) == [3.5, 4.0]


def test_predict_by_version_and_label(server: Clients) -> None:
    request = predict_request("half", version=1, x=np.float32([[1.0]]))
    assert list(server.predictions.Predict(request, timeout=30).outputs["y"].float_val) == [2.5]
    request.model_spec.ClearField("version")
    request.model_spec.version_label = "stable"
    response = server.predictions.Predict(request, timeout=30)
    assert (response.model_spec.version.value, list(response.outputs["y"].float_val)) == (1, [2.5])


def test_output_filter(server: Clients) -> None:
    inputs = {"a": np.float32([[1.0, 2.0]]), "b": np.int64([3])}
    response = server.predictions.Predict(predict_request("kinds", outputs=["twice"], **inputs), timeout=30)
    assert list(response.outputs) == ["twice"]
    assert list(response.outputs["twice"].int64_val) == [6]
    message = refused(
        server.predictions.Predict,
        predict_request("kinds", outputs=["none"], **inputs),
        Code.INVALID_ARGUMENT,
    )
    assert "output tensor alias not found in signature: none" in message
    message = refused(
        server.predictions.Predict,
        predict_request("kinds", outputs=["twice", "twice"], **inputs),
        Code.INVALID_ARGUMENT,
    )
    assert message == "duplicate output tensor alias: twice"


@pytest.mark.parametrize(
    ("signature", "value"),
    [
        ("floats", np.float32([[1.5, np.nan], [np.inf, -0.0]])),
        ("floats", np.float32(2.5)),
        ("floats", np.zeros((0, 3), np.float32)),
        ("halves", np.float16([0.1, 65504.0])),
        ("ints", np.int32([[1, -2]])),
        ("bools", np.array([True, False])),
    ],
)
def test_types_and_shapes_come_back(server: Clients, signature: str, value: Any) -> None:
    response = server.predictions.Predict(predict_request("kinds", signature, x=value), timeout=30)
    answer = tf.make_ndarray(response.outputs["y"])
    assert answer.dtype == value.dtype
    np.testing.assert_array_equal(answer, value)


def test_strings_are_bytes(server: Clients) -> None:
    response = server.predictions.Predict(
        predict_request("kinds", "texts", text=[b"a\x00\xff", b""]), timeout=30
    )
    assert list(response.outputs["same_bytes"].string_val) == [b"a\x00\xff", b""]


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (predict_request("nope", x=1.0), Code.NOT_FOUND, "Servable not found for request: Latest(nope)"),
        (
            predict_request("half", version=9, x=1.0),
            Code.NOT_FOUND,
            "Servable not found for request: Specific(half, 9)",
        ),
        (predict_request("", x=1.0), Code.INVALID_ARGUMENT, "ModelSpec has no name specified."),
        (
            predict_request("half", "no", x=1.0),
            Code.FAILED_PRECONDITION,
            'Serving signature key "no" not found.',
        ),
        (predict_request("half"), Code.INVALID_ARGUMENT, "Missing but required: {x}"),
        (predict_request("half", x=1.0, z=1.0), Code.INVALID_ARGUMENT, "Sent extra: {z}"),
        (predict_request("half", x=[[1]]), Code.INVALID_ARGUMENT, "Expected input x to be of type float32"),
        (predict_request("half", x=["a"]), Code.INVALID_ARGUMENT, "Expected input x to be of type float32"),
        (predict_request("kinds", "matrix", x=[[1.0]]), Code.INVALID_ARGUMENT, ""),
    ],
)
def test_predict_refusals(server: Clients, request_: Any, code: grpc.StatusCode, message: str) -> None:
    assert message in refused(server.predictions.Predict, request_, code)
    assert server.predictions.Predict(predict_request("half", x=[[1.0]]), timeout=30).outputs["y"].float_val


def test_unknown_label(server: Clients) -> None:
    request = predict_request("half", x=1.0)
    request.model_spec.version_label = "x"
    message = refused(server.predictions.Predict, request, Code.INVALID_ARGUMENT)
    assert message == "Unrecognized servable version label: x"


def test_tensors_that_contradict_themselves(server: Clients) -> None:
    short = tf.make_tensor_proto(np.zeros((2, 2), np.float32))
    short.tensor_content = short.tensor_content[:-4]
    huge = tf.make_tensor_proto(1.0)
    for _ in range(3):
        huge.tensor_shape.dim.add(size=1 << 20)
    nameless = tf.make_tensor_proto(1.0)
    nameless.dtype = 0
    unknown = tf.make_tensor_proto(1.0)
    unknown.tensor_shape.unknown_rank = True
    for tensor in (short, huge, nameless, unknown):
        message = refused(
            server.predictions.Predict, predict_request("kinds", "floats", x=tensor), Code.INVALID_ARGUMENT
        )
        assert message.startswith("tensor parsing error: x")


def test_messages_beyond_the_limit(server: Clients) -> None:
    request = predict_request("kinds", "floats", x=np.zeros(1 << 19, np.float32))
    refused(server.predictions.Predict, request, Code.RESOURCE_EXHAUSTED)
    assert server.predictions.Predict(predict_request("half", x=[[1.0]]), timeout=30).outputs["y"].float_val


def test_images_beyond_the_limit_are_refused_in_examples_too(server: Clients) -> None:
    bomb = tf.train.Feature(bytes_list=tf.train.BytesList(value=[bombs.BOMBS["png"]]))
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "half"
    request.model_spec.signature_name = "classify_x_to_y"
    request.input.example_list.examples.extend([example(x=20.0), example(x=10.0)])
    request.input.example_list.examples[1].features.feature["image"].CopyFrom(bomb)
    message = refused(server.predictions.Classify, request, Code.INVALID_ARGUMENT)
    assert "30000 x 30000" in message or "far more than 100000000 pixels" in message


def test_classify_and_regress(server: Clients) -> None:
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "half"
    request.model_spec.signature_name = "classify_x_to_y"
    request.model_spec.version.value = 1
    request.input.example_list.examples.extend([example(x=20.0), example(x=10.0)])
    response = server.predictions.Classify(request, timeout=30)
    answers = [(item.classes[0].label, item.classes[0].score) for item in response.result.classifications]
    assert answers == [("half", 12.0), ("half", 7.0)]
    assert response.model_spec.version.value == 1

    regression = regression_pb2.RegressionRequest(input=request.input, model_spec=request.model_spec)
    regression.model_spec.signature_name = "regress_x_to_y"
    response = server.predictions.Regress(regression, timeout=30)
    assert [item.value for item in response.result.regressions] == [12.0, 7.0]
    with_context = regression_pb2.RegressionRequest(model_spec=regression.model_spec)
    with_context.input.example_list_with_context.context.CopyFrom(example(x=80.0))
    with_context.input.example_list_with_context.examples.extend([example(), example(x=2.0)])
    response = server.predictions.Regress(with_context, timeout=30)
    assert [item.value for item in response.result.regressions] == [42.0, 3.0]
    assert refused(
        server.predictions.Regress,
        regression_pb2.RegressionRequest(model_spec=regression.model_spec),
        Code.INVALID_ARGUMENT,
    )


def test_method_names_are_checked_on_demand(made: Path) -> None:
    request = regression_pb2.RegressionRequest()
    request.model_spec.name = "half"
    request.model_spec.signature_name = "classify_x_to_y"
    request.input.example_list.examples.append(example(x=1.0))
    with in_thread(model_root=str(made), enable_signature_method_name_check=True) as clients:
        message = refused(clients.predictions.Regress, request, Code.INVALID_ARGUMENT)
    assert "Expected signature method_name to be tensorflow/serving/regress" in message


def test_metadata(server: Clients) -> None:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "kinds"
    response = server.predictions.GetModelMetadata(request, timeout=30)
    assert (response.model_spec.name, response.model_spec.version.value) == ("kinds", 7)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    assert set(signatures.signature_def["serving_default"].inputs) == {"a", "b"}
    request.metadata_field[:] = ["other"]
    refused(server.predictions.GetModelMetadata, request, Code.INVALID_ARGUMENT)
    request.metadata_field[:] = []
    refused(server.predictions.GetModelMetadata, request, Code.INVALID_ARGUMENT)


def test_status(server: Clients) -> None:
    assert server.states("half") == {1: "AVAILABLE", 2: "AVAILABLE"}
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "nope"
    message = refused(server.models.GetModelStatus, request, Code.NOT_FOUND)
    assert message == "Could not find any versions of model nope"


def test_multi_inference_is_unimplemented(server: Clients) -> None:
    refused(server.predictions.MultiInference, inference_pb2.MultiInferenceRequest(), Code.UNIMPLEMENTED)


def test_a_full_queue_refuses_and_recovers(made: Path) -> None:
    slow = predict_request("kinds", "slow", steps=np.int32([100]))
    with in_thread(model_root=str(made), max_queued_requests=2) as clients:
        calls = [clients.predictions.Predict.future(slow, timeout=60) for _ in range(8)]
        codes = [call.code() for call in calls]
        assert set(codes) == {Code.OK, Code.RESOURCE_EXHAUSTED}
        assert codes.count(Code.OK) >= 2
        response = clients.post("kinds:predict", {"signature_name": "slow", "instances": [1]})
        assert response.json() == {"predictions": [1.0]}


def test_a_deadline_ends_the_wait_and_not_the_server(server: Clients) -> None:
    slow = predict_request("kinds", "slow", steps=np.int32([1000]))
    with pytest.raises(grpc.RpcError) as caught:
        server.predictions.Predict(slow, timeout=0.05)
    assert caught.value.code() is Code.DEADLINE_EXCEEDED
    assert server.predictions.Predict(predict_request("half", x=[[1.0]]), timeout=30).outputs["y"].float_val

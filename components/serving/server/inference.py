"""From a request to a checked call of a model, and from its outputs to a result.

    call = predict_call(model, "serving_default", {"x": array}, output_filter=())
    result = classification_result(model.run(classify_call(model, request)), call, count)

Nothing here waits or runs a model: the service and the warm-up share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2, regression_pb2

from components import images
from components.serving.server import tensors
from components.serving.server.loading import Call, Model
from components.serving.server.status import Code, RequestError, invalid

DEFAULT_SIGNATURE = "serving_default"

CLASSIFY = "tensorflow/serving/classify"
REGRESS = "tensorflow/serving/regress"

Inputs = Mapping[str, np.ndarray]


def predict_signature(model: Model, name: str) -> Any:
    """The SignatureDef for a Predict request by gRPC.

    Raises:
        RequestError: FAILED_PRECONDITION, there is none of that name.
    """
    found = model.signatures.get(name or DEFAULT_SIGNATURE)
    if found is None:
        raise RequestError(
            Code.FAILED_PRECONDITION, f'Serving signature key "{name or DEFAULT_SIGNATURE}" not found.'
        )
    return found


def predict_call(model: Model, name: str, inputs: Inputs, output_filter: Sequence[str]) -> Call:
    """Checks names and types of a Predict request against its signature.

    Args:
        name: of the signature; empty for `serving_default`.
        inputs: alias -> array.
        output_filter: aliases to fetch; empty for all.

    Raises:
        RequestError: no such signature, inputs or outputs that it does not have.
    """
    signature = predict_signature(model, name)
    complete = {**_defaults(signature), **inputs}
    _check_names(complete, signature, inputs)
    for alias, array in complete.items():
        _check_dtype(alias, array, signature.inputs[alias])
    return Call(name or DEFAULT_SIGNATURE, complete, _fetched(signature, output_filter))


def check_images(call: Call, limit: int) -> None:
    """Refuses images that are small files and decode to gigabytes, in Examples too.

    Raises:
        RequestError: INVALID_ARGUMENT, one has more pixels than `limit`.
    """
    for alias, array in call.inputs.items():
        if array.dtype == object:
            for value in array.flat:
                reason = images.fault_within(value, limit) if isinstance(value, bytes) else None
                if reason is not None:
                    raise invalid(f"Input {alias}: {reason}")


def _defaults(signature: Any) -> dict[str, np.ndarray]:
    return {name: tensors.to_array(value, name) for name, value in signature.defaults.items()}


def _check_names(complete: Inputs, signature: Any, sent: Inputs) -> None:
    wanted = set(signature.inputs)
    if set(complete) != wanted:
        raise invalid(
            f"input size does not match signature: {len(sent)}!={len(wanted)} "
            f"len({{{','.join(sorted(sent))}}}) != len({{{','.join(sorted(wanted))}}}). "
            f"Sent extra: {{{','.join(sorted(set(sent) - wanted))}}}. "
            f"Missing but required: {{{','.join(sorted(wanted - set(complete)))}}}."
        )


def _check_dtype(alias: str, array: np.ndarray, info: Any) -> None:
    expected = tensors.base_dtype(info.dtype)
    if array.dtype != expected.as_numpy_dtype:
        received = "string" if array.dtype == object else array.dtype
        raise invalid(f"Expected input {alias} to be of type {expected.name}. Received: {received}")


def _fetched(signature: Any, output_filter: Sequence[str]) -> tuple[str, ...]:
    unknown = [alias for alias in output_filter if alias not in signature.outputs]
    if unknown:
        raise invalid(
            f"output tensor alias not found in signature: {unknown[0]} "
            f"Outputs expected to be in the set {{{','.join(sorted(signature.outputs))}}}."
        )
    if len(set(output_filter)) < len(output_filter):
        doubled = next(alias for alias in output_filter if list(output_filter).count(alias) > 1)
        raise invalid(f"duplicate output tensor alias: {doubled}")
    return tuple(output_filter) or tuple(sorted(signature.outputs))


def examples_of(request: Any) -> np.ndarray:
    """(B,) object array of bytes: a Classify or Regress request's serialized Examples.

    Raises:
        RequestError: INVALID_ARGUMENT, there are none.
    """
    kind = request.input.WhichOneof("kind")
    if kind == "example_list_with_context":
        listed = request.input.example_list_with_context
        serialized = [_merged(listed.context, example) for example in listed.examples]
    else:
        serialized = [example.SerializeToString() for example in request.input.example_list.examples]
    if not serialized:
        raise invalid("Input is empty.")
    return np.array(serialized, object)


def _merged(context: Any, example: Any) -> bytes:
    merged = type(example).FromString(context.SerializeToString())
    merged.MergeFrom(example)
    return bytes(merged.SerializeToString())


def classify_call(model: Model, request: Any, check_method: bool = False) -> Call:
    """The call for a ClassificationRequest: fetches `classes` and `scores`, whichever there are.

    Raises:
        RequestError: the signature is missing or cannot classify; no examples.
    """
    name, signature = _example_signature(model, request, CLASSIFY, check_method)
    outputs = tuple(alias for alias in ("classes", "scores") if alias in signature.outputs)
    if not outputs:
        raise RequestError(
            Code.FAILED_PRECONDITION,
            f'Expected classification signature outputs to contain at least one of "classes" or "scores". '
            f"Signature has: {','.join(sorted(signature.outputs))}",
        )
    return Call(name, {"inputs": examples_of(request)}, outputs)


def regress_call(model: Model, request: Any, check_method: bool = False) -> Call:
    """The call for a RegressionRequest: fetches `outputs`.

    Raises:
        RequestError: the signature is missing or cannot regress; no examples.
    """
    name, signature = _example_signature(model, request, REGRESS, check_method)
    if "outputs" not in signature.outputs:
        raise RequestError(
            Code.FAILED_PRECONDITION,
            f'Expected regression signature outputs to contain "outputs". '
            f"Signature has: {','.join(sorted(signature.outputs))}",
        )
    return Call(name, {"inputs": examples_of(request)}, ("outputs",))


def _example_signature(model: Model, request: Any, method: str, check_method: bool) -> tuple[str, Any]:
    name = request.model_spec.signature_name or DEFAULT_SIGNATURE
    signature = model.signatures.get(name)
    if signature is None:
        raise invalid(f"No signature was found with the name: {name}")
    if check_method and signature.method_name != method:
        raise invalid(f"Expected signature method_name to be {method}. Was: {signature.method_name}")
    if set(signature.inputs) != {"inputs"}:
        raise RequestError(
            Code.FAILED_PRECONDITION,
            f'Expected one input tensor "inputs" in signature {name}. '
            f"It has: {','.join(sorted(signature.inputs))}",
        )
    if tensors.base_dtype(signature.inputs["inputs"].dtype) != tf.string:
        raise invalid(f"Expected input of signature {name} to take serialized Examples (string)")
    return name, signature


def classification_result(call: Call, arrays: Sequence[np.ndarray]) -> Any:
    """A ClassificationResult of `classes` (B, C) string and/or `scores` (B, C) float32.

    Raises:
        RequestError: the model answered in another shape.
    """
    found = dict(zip(call.outputs, arrays, strict=True))
    count = len(call.inputs["inputs"])
    for name, array in found.items():
        if array.ndim != 2 or len(array) != count:
            raise invalid(f"Expected {name} of shape [{count} num_classes] but got {list(array.shape)}")
    if len({array.shape for array in found.values()}) > 1:
        raise invalid("Tensors class and score should match in dim_size(1)")
    width = next(iter(found.values())).shape[1]
    # Either may be missing: labels are then empty, scores 0.
    labels = found["classes"] if "classes" in found else np.full((count, width), b"", object)
    scores = found["scores"] if "scores" in found else np.zeros((count, width), np.float32)
    result = classification_pb2.ClassificationResult()
    for row_labels, row_scores in zip(labels.tolist(), scores.tolist(), strict=True):
        classes = result.classifications.add().classes
        for label, score in zip(row_labels, row_scores, strict=True):
            classes.add(label=label, score=score)
    return result


def regression_result(call: Call, arrays: Sequence[np.ndarray]) -> Any:
    """A RegressionResult of `outputs` (B,) or (B, 1) float32.

    Raises:
        RequestError: the model answered in another shape.
    """
    count = len(call.inputs["inputs"])
    values = np.asarray(arrays[0])
    if values.shape not in ((count,), (count, 1)):
        raise invalid(
            f"Expected output Tensor shape to be [{count}] or [{count} 1] but got {list(values.shape)}"
        )
    result = regression_pb2.RegressionResult()
    for value in values.ravel().tolist():
        result.regressions.add(value=value)
    return result

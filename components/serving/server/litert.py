"""TFLite models from version folders, as with TensorFlow Serving's --prefer_tflite_model."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from components.serving import cores

if TYPE_CHECKING:
    from components.serving.server.loading import Call

_INTERPRETERS = 2
"""An interpreter runs one request at a time; further requests wait."""

DEFAULT_SIGNATURE = "serving_default"


class LiteRtModel:
    """A TFLite model: its own signatures, or one made of its inputs and outputs."""

    def __init__(self, path: Path) -> None:
        interpreters = [cores.interpreter(path) for _ in range(_INTERPRETERS)]
        self._signatures = interpreters[0].get_signature_list()
        self.signatures: Mapping[str, Any] = _signature_defs(interpreters[0])
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for interpreter in interpreters:
            self._idle.put(interpreter)

    def run(self, call: Call) -> list[np.ndarray]:
        _check_shapes(self.signatures[call.signature], call)
        interpreter = self._idle.get()
        try:
            if self._signatures:
                # Resizing and allocation happen inside the runner.
                answer = interpreter.get_signature_runner(call.signature)(**call.inputs)
                return [np.array(answer[alias]) for alias in call.outputs]
            return _run_plain(interpreter, call)
        finally:
            self._idle.put(interpreter)

    def close(self) -> None:
        """Interpreters are freed with the object."""


def _signature_defs(interpreter: Any) -> dict[str, Any]:
    listed = interpreter.get_signature_list()
    if not listed:
        inputs = {item["name"]: item for item in interpreter.get_input_details()}
        outputs = {item["name"]: item for item in interpreter.get_output_details()}
        return {DEFAULT_SIGNATURE: _signature_def(inputs, outputs)}
    runners = {name: interpreter.get_signature_runner(name) for name in listed}
    return {
        name: _signature_def(runner.get_input_details(), runner.get_output_details())
        for name, runner in runners.items()
    }


def _signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Any:
    return meta_graph_pb2.SignatureDef(
        inputs={name: _tensor_info(item) for name, item in inputs.items()},
        outputs={name: _tensor_info(item) for name, item in outputs.items()},
        method_name="tensorflow/serving/predict",
    )


def _tensor_info(item: Mapping[str, Any]) -> Any:
    dtype = tf.string if item["dtype"] is np.bytes_ else item["dtype"]
    shape = [None if size < 0 else int(size) for size in item.get("shape_signature", item["shape"])]
    return meta_graph_pb2.TensorInfo(
        name=item["name"],
        dtype=tf.dtypes.as_dtype(dtype).as_datatype_enum,
        tensor_shape=tf.TensorShape(shape).as_proto(),
    )


def _check_shapes(signature: Any, call: Call) -> None:
    """Refuses what the interpreter would take by resizing, and then compute nonsense from."""
    for alias, value in call.inputs.items():
        wanted = [dim.size for dim in signature.inputs[alias].tensor_shape.dim]
        # The first dimension is the batch: a model converted for one row takes more.
        fits = all(size in (-1, given) for size, given in zip(wanted[1:], value.shape[1:], strict=False))
        if len(wanted) != value.ndim or not fits:
            raise ValueError(f"Expected input {alias} of shape {wanted}. Received: {list(value.shape)}")


def _run_plain(interpreter: Any, call: Call) -> list[np.ndarray]:
    for item in interpreter.get_input_details():
        value = call.inputs[item["name"]]
        if tuple(item["shape"]) != value.shape:
            interpreter.resize_tensor_input(item["index"], value.shape)
    interpreter.allocate_tensors()
    for item in interpreter.get_input_details():
        interpreter.set_tensor(item["index"], call.inputs[item["name"]])
    interpreter.invoke()
    outputs = {item["name"]: item["index"] for item in interpreter.get_output_details()}
    return [np.array(interpreter.get_tensor(outputs[alias])) for alias in call.outputs]

"""Version folders that are no SavedModel, with raw input all the same.

Such a folder holds a model that takes tensors, a SavedModel `preprocessing`
that makes them, and `assets.extra/servable.json`. It answers the signatures
that take raw input, as the trained model does, and `predict_tensors` beside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from components.errors import ServableError
from components.serving import cores
from components.serving.servable import PREPROCESSING, SIGNATURE_TENSORS, Servable, TensorCore

if TYPE_CHECKING:
    from components.serving.server.loading import Call, Model


class RawInputModel:
    """A TFLite or ONNX model behind its preprocessing.

    Args:
        folder: the version folder.
        load_saved_model: loads `preprocessing`.
    """

    def __init__(self, folder: Path, load_saved_model: Callable[[Path], Model]) -> None:
        self._servable = Servable.inside(folder)
        self._info = _core_of(self._servable, folder)
        self._core = cores.open_core(self._servable.runtime, folder / self._info.file)
        self._before = load_saved_model(folder / PREPROCESSING)
        self.signatures: Mapping[str, Any] = _signature_defs(self._servable, self._info)

    def run(self, call: Call) -> list[np.ndarray]:
        (value,) = call.inputs.values()
        if call.signature == SIGNATURE_TENSORS:
            self._check(value)
            tensor = value
        else:
            (tensor,) = self._before.run(dataclasses.replace(call, outputs=(self._info.input,)))
        scores = self._core(tensor)
        if not self._servable.class_names:
            return [np.reshape(scores, -1) for _ in call.outputs]
        names = np.array([[name.encode() for name in self._servable.class_names]], dtype=object)
        outputs = {
            self._servable.scores: scores,
            self._servable.classes: np.repeat(names, len(scores), axis=0),
        }
        return [outputs[name] for name in call.outputs]

    def _check(self, value: np.ndarray) -> None:
        """Refuses what an interpreter would take by resizing, and then compute nonsense from."""
        wanted = self._info.shape
        fits = all(size in (-1, given) for size, given in zip(wanted, value.shape[1:], strict=False))
        if value.ndim != len(wanted) + 1 or not fits:
            raise ValueError(
                f"Expected input {self._info.input} of shape {[-1, *wanted]}. Received: {list(value.shape)}"
            )

    def close(self) -> None:
        """Frees the preprocessing; the core is freed with the object."""
        self._before.close()


def _core_of(servable: Servable, folder: Path) -> TensorCore:
    if servable.core is None or servable.runtime not in cores.CORES:
        raise ServableError(
            f"There is no way to serve a servable of runtime {servable.runtime!r}", place=str(folder)
        )
    return servable.core


def _signature_defs(servable: Servable, core: TensorCore) -> dict[str, Any]:
    count = len(servable.class_names)
    outputs = {servable.scores: _info(tf.float32, [None, count] if count else [None])}
    if count:
        outputs[servable.classes] = _info(tf.string, [None, count])
    shape = [None, *(None if size < 0 else size for size in core.shape)]
    inputs = {item.name: {item.input: _info(tf.string, [None])} for item in servable.signatures}
    inputs[SIGNATURE_TENSORS] = {core.input: _info(tf.as_dtype(core.dtype), shape)}
    return {
        name: meta_graph_pb2.SignatureDef(
            inputs=taken, outputs=outputs, method_name="tensorflow/serving/predict"
        )
        for name, taken in inputs.items()
    }


def _info(dtype: Any, shape: list[int | None]) -> Any:
    return meta_graph_pb2.TensorInfo(
        dtype=dtype.as_datatype_enum, tensor_shape=tf.TensorShape(shape).as_proto()
    )

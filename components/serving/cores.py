"""The part of a servable that takes tensors: TFLite by LiteRT, ONNX by ONNX Runtime, engines by TensorRT.

    core = open_core("litert", folder / "model.tflite")
    scores = core(tensor)                     # (B, ...) to (B, C) float32

A core may be called from several threads at once.
"""

from __future__ import annotations

import queue
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from components.errors import ServableError
from components.serving.servable import SIGNATURE_TENSORS
from components.serving.tensorrt_core import TensorRtCore

Core = Callable[[np.ndarray], np.ndarray]

_INTERPRETERS = 2
"""An interpreter runs one request at a time; further requests wait."""


class LiteRtCore:
    """A TFLite model with the signature `predict_tensors`."""

    def __init__(self, path: Path) -> None:
        runners = [_runner(path) for _ in range(_INTERPRETERS)]
        (self._input,) = runners[0].get_input_details()
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for runner in runners:
            self._idle.put(runner)

    def __call__(self, tensor: np.ndarray) -> np.ndarray:
        runner = self._idle.get()
        try:
            (scores,) = runner(**{self._input: tensor}).values()
            return np.array(scores)
        finally:
            self._idle.put(runner)


class OnnxCore:
    """An ONNX model with one input and one output."""

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise ServableError(
                "ONNX Runtime is not installed",
                place=str(path),
                remedy="Install the extra: pip install 'headrace[onnx]'.",
            ) from error
        try:
            self._session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:  # its classes derive from Exception alone
            raise ServableError(f"An ONNX model does not load: {error}", place=str(path)) from error
        self._input = self._session.get_inputs()[0].name

    def __call__(self, tensor: np.ndarray) -> np.ndarray:
        (scores,) = self._session.run(None, {self._input: tensor})
        return np.asarray(scores)


CORES: dict[str, Callable[[Path], Core]] = {
    "litert": LiteRtCore,
    "onnxruntime": OnnxCore,
    "tensorrt": TensorRtCore,
}


def open_core(runtime: str, path: Path) -> Core:
    """Loads a model file.

    Raises:
        ServableError: it does not load.
    """
    return CORES[runtime](path)


def interpreter(path: Path, threads: int | None = None) -> Any:
    """A LiteRT interpreter with its tensors allocated.

    Raises:
        ServableError: the file is no TFLite model, or needs an operation that LiteRT lacks.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = _interpreter_class()(model_path=str(path), num_threads=threads)
            made.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise ServableError(
            f"A TFLite model does not load: {error}", place=str(path), remedy=_remedy(error)
        ) from error
    return made


def _runner(path: Path) -> Any:
    made = interpreter(path)
    if SIGNATURE_TENSORS not in made.get_signature_list():
        raise ServableError(f"A TFLite model lacks the signature {SIGNATURE_TENSORS!r}", place=str(path))
    return made.get_signature_runner(SIGNATURE_TENSORS)


def _interpreter_class() -> Any:
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        # TensorFlow still carries the same interpreter, under notice.
        import tensorflow as tf

        return tf.lite.Interpreter
    return Interpreter


def _remedy(error: Exception) -> str:
    if "ParseExample" in str(error):
        return (
            "It parses tf.Examples itself, with an operation that the TFLite runtime lacks; "
            "convert the part behind the parsing, or serve the SavedModel (without prefer_tflite_model)."
        )
    return "Serve the SavedModel (without prefer_tflite_model), or convert it with built-in operations only."

"""What the TFLite techniques share: converting the core, quantizing the file, laying it out."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from pathlib import Path
from typing import Any

import tensorflow as tf

from components.rewriter.base import CORE_INPUT, CannotRun, TrainedModel
from components.serving.servable import CORE_FILES, SIGNATURE_TENSORS

FILE = CORE_FILES["litert"]


def convert(trained: TrainedModel, *, float16: bool = False) -> bytes:
    """The core as TFLite, with float32 input and output."""
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the converter's module announces its removal
        trained.write_core(Path(scratch, "core"))
        converter = tf.lite.TFLiteConverter.from_saved_model(
            str(Path(scratch, "core")), signature_keys=[SIGNATURE_TENSORS]
        )
        if float16:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.target_spec.supported_types = [tf.float16]
        return bytes(converter.convert())


def quantizer_of(model: bytes, scratch: Path, recipe: str) -> Any:
    """AI Edge's quantizer on a float32 TFLite model.

    Args:
        model: the TFLite file's contents.
        scratch: a folder for the file.
        recipe: a function of `ai_edge_quantizer.recipe`.

    Raises:
        CannotRun: the package is not installed.
    """
    try:
        from ai_edge_quantizer import quantizer
        from ai_edge_quantizer import recipe as recipes
    except ImportError as error:
        raise CannotRun("the package ai-edge-quantizer is not installed") from error
    path = scratch / "float32.tflite"
    path.write_bytes(model)
    return quantizer.Quantizer(str(path), getattr(recipes, recipe)())


def quantized(made: Any, calibration: Any = None) -> bytes:
    """The quantizer's result; what it prints of its progress is kept off the log."""
    with contextlib.redirect_stdout(io.StringIO()):
        return bytes(made.quantize(calibration).quantized_model)


def calibrated(made: Any, trained: TrainedModel) -> Any:
    """Ranges of all activations over the calibration examples."""
    batches = [{CORE_INPUT: batch} for batch in trained.calibration_batches()]
    return made.calibrate({SIGNATURE_TENSORS: batches}, num_threads=1)


def write(trained: TrainedModel, folder: Path, model: bytes) -> None:
    """Lays out a version folder as TensorFlow Serving's --prefer_tflite_model wants it."""
    trained.write_tensor_model(folder, lambda path: _write(path, model), FILE)


def _write(path: Path, model: bytes) -> None:
    path.write_bytes(model)

"""keras_int8: dense layers with int8 weights, by Keras's own `quantize`."""

from __future__ import annotations

from pathlib import Path

from components.rewriter.base import TrainedModel
from components.rewriter.techniques import keras_quantized


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel."""
    keras_quantized.build(trained, folder, "int8")

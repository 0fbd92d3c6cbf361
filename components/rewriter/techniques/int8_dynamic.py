"""int8_dynamic: TensorFlow's quantizer; activations are quantized by the range that each call has."""

from __future__ import annotations

from pathlib import Path

from components.rewriter.base import TrainedModel
from components.rewriter.techniques import tf_quantizer


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel."""
    tf_quantizer.build(trained, folder, method="METHOD_DYNAMIC_RANGE_INT8", op_set="TF")

"""int8_static: TensorFlow's quantizer; ranges measured on training examples, weights per channel."""

from __future__ import annotations

from pathlib import Path

from components.rewriter.base import TrainedModel
from components.rewriter.techniques import tf_quantizer


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel. (The XLA operation set is the quicker one on a CPU.)"""
    tf_quantizer.build(trained, folder, method="METHOD_STATIC_RANGE_INT8", op_set="XLA", calibrated=True)

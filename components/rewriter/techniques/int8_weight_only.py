"""int8_weight_only: TensorFlow's quantizer over the weights; they are dequantized on every call."""

from __future__ import annotations

from pathlib import Path

from components.rewriter.base import TrainedModel
from components.rewriter.techniques import tf_quantizer


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel. (With the TF operation set the quantizer raises.)"""
    tf_quantizer.build(trained, folder, method="METHOD_STATIC_RANGE_WEIGHT_ONLY_INT8", op_set="XLA")

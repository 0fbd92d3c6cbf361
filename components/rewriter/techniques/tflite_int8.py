"""tflite_int8: TFLite in int8 throughout, calibrated on training examples, weights per channel.

Input and output stay float32, so that clients need no scale; the last softmax
stays float32 too: in int8 it gives probabilities in steps of 1/256.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from components.rewriter.base import TrainedModel
from components.rewriter.techniques import tflite_files

_KEPT = ("INPUT", "OUTPUT", "SOFTMAX")


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the version folder.

    Raises:
        CannotRun: ai-edge-quantizer is not installed, or there are no examples.
    """
    with tempfile.TemporaryDirectory() as scratch:
        made = tflite_files.quantizer_of(tflite_files.convert(trained), Path(scratch), "static_wi8_ai8")
        keep_float(made)
        model = tflite_files.quantized(made, tflite_files.calibrated(made, trained))
    tflite_files.write(trained, folder, model)


def keep_float(made: Any) -> None:
    """Excepts what stays in float32 from a quantizer's recipe."""
    from ai_edge_quantizer import algorithm_manager, qtyping

    for name in _KEPT:
        made.update_quantization_recipe(
            regex=".*",
            operation_name=qtyping.TFLOperationName[name],
            algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE,
        )

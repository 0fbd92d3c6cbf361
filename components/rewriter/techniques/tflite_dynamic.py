"""tflite_dynamic: TFLite with int8 weights per channel; activations are quantized row by row at run time."""

from __future__ import annotations

import tempfile
from pathlib import Path

from components.rewriter.base import TrainedModel
from components.rewriter.techniques import tflite_files


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the version folder.

    Raises:
        CannotRun: ai-edge-quantizer is not installed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        made = tflite_files.quantizer_of(tflite_files.convert(trained), Path(scratch), "dynamic_wi8_afp32")
        tflite_files.write(trained, folder, tflite_files.quantized(made))

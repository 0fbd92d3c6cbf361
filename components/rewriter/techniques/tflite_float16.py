"""tflite_float16: TFLite with weights stored as float16, computed in float32 where the CPU has no better."""

from __future__ import annotations

from pathlib import Path

from components.rewriter.base import TrainedModel
from components.rewriter.techniques import tflite_files


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the version folder."""
    tflite_files.write(trained, folder, tflite_files.convert(trained, float16=True))

"""tflite: the core as TFLite in float32, which LiteRT runs several times faster than TensorFlow on a CPU."""

from __future__ import annotations

from pathlib import Path

from components.rewriter.base import TrainedModel
from components.rewriter.techniques import tflite_files


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the version folder."""
    tflite_files.write(trained, folder, tflite_files.convert(trained))

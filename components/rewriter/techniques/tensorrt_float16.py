"""tensorrt_float16: a TensorRT engine by ONNX in float16, in Triton's layout."""

from __future__ import annotations

from pathlib import Path

from components.rewriter.base import TrainedModel
from components.rewriter.techniques import tensorrt_files


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the version folder; see `tensorrt_files.build`."""
    tensorrt_files.build(trained, folder, int8=False)

"""onnx: the core as ONNX in float32, in Triton's layout."""

from __future__ import annotations

import tempfile
from pathlib import Path

from components.rewriter.base import TrainedModel
from components.rewriter.techniques import onnx_files


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the version folder.

    Raises:
        CannotRun: the extra `onnx` is not installed.
    """
    model = onnx_files.convert(trained)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, onnx_files.FILE)
        path.write_bytes(model.SerializeToString())
        onnx_files.write(trained, folder, path)

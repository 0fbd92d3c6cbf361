"""onnx_int8: ONNX in int8 by ONNX Runtime's quantizer, calibrated, weights per channel.

Calibrated and not dynamic: dynamic ranges are those of a whole batch, so that
an answer would depend on what else is in the batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from components.rewriter.base import CORE_INPUT, CannotRun, TrainedModel
from components.rewriter.techniques import onnx_files


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the version folder.

    Raises:
        CannotRun: the extra `onnx` is not installed, or there are no examples.
    """
    model = onnx_files.convert(trained)
    with tempfile.TemporaryDirectory() as scratch:
        quantized = Path(scratch, "int8.onnx")
        quantize(model, quantized, trained.calibration_batches())
        onnx_files.write(trained, folder, quantized)


def quantize(model: Any, target: Path, batches: Sequence[np.ndarray]) -> None:
    """Writes an int8 version of an ONNX model, with ranges measured on batches: (B, ...) each."""
    try:
        from onnxruntime import quantization
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as error:
        raise CannotRun(f"the extra `onnx` is not installed ({error.name} is missing)") from error

    source, prepared = target.with_suffix(".float32.onnx"), target.with_suffix(".prepared.onnx")
    source.write_bytes(model.SerializeToString())
    # Folds batch normalisation into convolutions, without which ranges are of little use.
    quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    quantization.quantize_static(
        str(prepared),
        str(target),
        Batches(batches),
        quant_format=quantization.QuantFormat.QDQ,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        per_channel=True,
        # Without VNNI, products of uint8 and int8 are summed in 16 bits and overflow.
        reduce_range=True,
    )


class Batches:
    """A calibration data reader as ONNX Runtime calls it."""

    def __init__(self, batches: Sequence[np.ndarray]) -> None:
        self._batches: Iterator[np.ndarray] = iter(batches)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next batch by input name; None at the end."""
        batch = next(self._batches, None)
        return None if batch is None else {CORE_INPUT: batch}

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> dict[str, np.ndarray]:
        batch = self.get_next()
        if batch is None:
            raise StopIteration
        return batch

"""Int8 calibration as TensorRT 10 asks for it: batches in device memory. Not verified on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from components.serving import cuda

BATCH = 32
"""As many as the profile's most frequent shape has: TensorRT calibrates with that."""


def calibrator(trt: Any, tensors: np.ndarray, cache: Path, library: Any = None) -> Any:
    """An entropy calibrator that feeds whole batches, and keeps TensorRT's cache.

    Args:
        trt: the module `tensorrt`.
        tensors: (N, ...), what the engine's input takes; fewer than a batch are repeated.
        cache: file for the ranges.
        library: libcudart, for tests.

    Raises:
        CudaError: there is no GPU.
    """
    if len(tensors) < BATCH:
        tensors = np.resize(tensors, (BATCH, *tensors.shape[1:]))

    class Calibrator(trt.IInt8EntropyCalibrator2):
        def __init__(self) -> None:
            # TensorRT wants its own constructor called, by name.
            trt.IInt8EntropyCalibrator2.__init__(self)
            self._at = 0
            # One buffer for all batches: TensorRT is done with one before it asks for the next.
            self._held = cuda.Device(library).buffer(tensors[:BATCH].nbytes)

        def get_batch_size(self) -> int:
            return BATCH

        def get_batch(self, names: Sequence[str]) -> list[int] | None:
            batch = tensors[self._at : self._at + BATCH]
            if len(batch) < BATCH:
                return None
            self._at += BATCH
            self._held.put(np.ascontiguousarray(batch))
            return [int(self._held)]

        def read_calibration_cache(self) -> bytes | None:
            return cache.read_bytes() if cache.exists() else None

        def write_calibration_cache(self, data: Any) -> None:
            cache.write_bytes(bytes(data))

    return Calibrator()

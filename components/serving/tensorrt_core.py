"""A TensorRT engine as a core: (B, ...) in, (B, C) float32 out. Not verified on a GPU.

    core = TensorRtCore(folder / "model.plan")
    scores = core(tensor)

As TensorRT 10 has it: tensors have names, their addresses are given to an
execution context, and `execute_async_v3` runs it on a stream.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np

from components.errors import ServableError
from components.serving import cuda


class TensorRtCore:
    """An engine with one input and one output, whose batch may be of any size up to its profile's.

    A context runs one batch at a time: further calls wait. Batches larger than
    the profile's are cut.

    Args:
        path: the serialized engine.
        library: libcudart, for tests.

    Raises:
        ServableError: TensorRT or the CUDA runtime is not installed, there is no
            GPU, or the engine is of another version or another kind of GPU.
    """

    def __init__(self, path: Path, library: Any = None) -> None:
        try:
            import tensorrt
        except ImportError as error:
            raise ServableError(
                "TensorRT is not installed",
                place=str(path),
                remedy="Install the extra: pip install 'headrace[tensorrt]'.",
            ) from error
        try:
            self._device = cuda.Device(library)
        except cuda.CudaError as error:
            raise ServableError(f"There is no GPU for an engine: {error}", place=str(path)) from error
        # Kept: an engine needs its runtime, and a context its engine.
        self._runtime = tensorrt.Runtime(tensorrt.Logger(tensorrt.Logger.WARNING))
        self._engine = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if self._engine is None:
            raise ServableError(
                "A TensorRT engine does not load: it is of another version or another kind of GPU",
                place=str(path),
                remedy="Build it where it is served.",
            )
        self._context = self._engine.create_execution_context()
        self._input, self._output = _names(tensorrt, self._engine, path)
        self._dtypes = tuple(
            np.dtype(tensorrt.nptype(self._engine.get_tensor_dtype(name)))
            for name in (self._input, self._output)
        )
        self._most = int(self._engine.get_tensor_profile_shape(self._input, 0)[-1][0])
        self._lock = threading.Lock()

    def __call__(self, tensor: np.ndarray) -> np.ndarray:
        starts = range(0, max(len(tensor), 1), self._most)
        with self._lock:
            parts = [self._batch(tensor[start : start + self._most]) for start in starts]
        return np.concatenate(parts).astype(np.float32, copy=False)

    def _batch(self, tensor: np.ndarray) -> np.ndarray:
        given = np.ascontiguousarray(tensor, self._dtypes[0])
        if not self._context.set_input_shape(self._input, tuple(given.shape)):
            raise ValueError(f"the engine takes no input of the shape {given.shape}")
        made = np.empty(tuple(self._context.get_tensor_shape(self._output)), self._dtypes[1])
        with self._device.buffer(given.nbytes) as source, self._device.buffer(made.nbytes) as target:
            source.put(given)
            self._context.set_tensor_address(self._input, int(source))
            self._context.set_tensor_address(self._output, int(target))
            if not self._context.execute_async_v3(self._device.stream):
                raise RuntimeError("the engine did not run; TensorRT's log says why")
            target.get(made)
        return made


def _names(tensorrt: Any, engine: Any, path: Path) -> tuple[str, str]:
    names = [engine.get_tensor_name(number) for number in range(engine.num_io_tensors)]
    given = [name for name in names if engine.get_tensor_mode(name) == tensorrt.TensorIOMode.INPUT]
    made = [name for name in names if name not in given]
    if len(given) != 1 or len(made) != 1:
        raise ServableError(
            f"A TensorRT engine has {len(given)} inputs and {len(made)} outputs; expected one of each",
            place=str(path),
        )
    return given[0], made[0]

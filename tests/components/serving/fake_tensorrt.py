"""A stand-in for TensorRT 10 and for libcudart, in which device memory is this process's own.

An engine multiplies its one input `inputs` (B, 3) float32 by two, as float16 `scores`.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np

PLAN = b"engine"
MOST = 4


class Cudart:
    """libcudart's functions, as ctypes has them; `held` are the buffers that are not freed."""

    def __init__(self, failing: str = "") -> None:
        self.held: dict[int, Any] = {}
        for name in (
            "cudaStreamCreate",
            "cudaStreamSynchronize",
            "cudaMalloc",
            "cudaMemcpyAsync",
            "cudaFree",
        ):
            function = (lambda *given: 2) if name == failing else getattr(self, f"_{name}")
            setattr(self, name, function)
        # A plain function, since the caller sets what it returns.
        self.cudaGetErrorString = lambda code: b"out of memory"

    def _cudaStreamCreate(self, stream: Any) -> int:
        stream._obj.value = 77
        return 0

    def _cudaStreamSynchronize(self, stream: ctypes.c_void_p) -> int:
        return 0 if stream.value == 77 else 1

    def _cudaMalloc(self, address: Any, size: ctypes.c_size_t) -> int:
        memory = (ctypes.c_char * size.value)()
        address._obj.value = ctypes.addressof(memory)
        self.held[ctypes.addressof(memory)] = memory
        return 0

    def _cudaMemcpyAsync(self, target: Any, source: Any, size: Any, kind: Any, stream: Any) -> int:
        device = target if kind.value == 1 else source
        if device.value not in self.held:
            return 1
        ctypes.memmove(target, source, size.value)
        return 0

    def _cudaFree(self, address: ctypes.c_void_p) -> int:
        del self.held[address.value]
        return 0


def at(address: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Device memory as an array."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = (ctypes.c_char * count).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


class _Context:
    def __init__(self) -> None:
        self.addresses: dict[str, int] = {}
        self.shape: tuple[int, ...] = ()

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self.shape = shape
        return name == "inputs" and shape[1:] == (3,) and 1 <= shape[0] <= MOST

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self.shape

    def set_tensor_address(self, name: str, address: int) -> None:
        self.addresses[name] = address

    def execute_async_v3(self, stream: int) -> bool:
        given = at(self.addresses["inputs"], self.shape, np.float32)
        at(self.addresses["scores"], self.shape, np.float16)[...] = 2 * given
        return stream == 77


class _Engine:
    num_io_tensors = 2

    def get_tensor_name(self, number: int) -> str:
        return ("inputs", "scores")[number]

    def get_tensor_mode(self, name: str) -> str:
        return "in" if name == "inputs" else "out"

    def get_tensor_dtype(self, name: str) -> str:
        return "float" if name == "inputs" else "half"

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[tuple[int, ...]]:
        return [(1, 3), (2, 3), (MOST, 3)]

    def create_execution_context(self) -> _Context:
        return _Context()


class _Runtime:
    def __init__(self, logger: Any) -> None:
        pass

    def deserialize_cuda_engine(self, plan: bytes) -> _Engine | None:
        return _Engine() if plan == PLAN else None


class _Logger:
    WARNING = 2

    def __init__(self, severity: int) -> None:
        pass


class _Calibrator:
    def __init__(self) -> None:
        self.made = True


MODULE: Any = SimpleNamespace(
    Logger=_Logger,
    Runtime=_Runtime,
    TensorIOMode=SimpleNamespace(INPUT="in", OUTPUT="out"),
    nptype={"float": np.float32, "half": np.float16}.__getitem__,
    IInt8EntropyCalibrator2=_Calibrator,
)

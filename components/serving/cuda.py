"""Memory of the first GPU, as much as a TensorRT engine needs, by the CUDA runtime that its package brings.

    device = Device()
    with device.buffer(tensor.nbytes) as buffer:
        buffer.put(tensor)
        run(int(buffer), device.stream)
        buffer.get(answer)

Through ctypes: the names of CUDA's Python packages have changed from one
version to the next, those of its C library have not.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

_TO_DEVICE, _TO_HOST = 1, 2
_NAMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")
_PACKAGES = ("cu13/lib", "cuda_runtime/lib")
"""Where NVIDIA's wheels put it, below the package `nvidia`."""


class CudaError(RuntimeError):
    """The CUDA runtime is missing, or a call of it failed."""


class Device:
    """A stream of the first GPU.

    Args:
        library: libcudart; found where none is given.

    Raises:
        CudaError: there is none, or no GPU.
    """

    def __init__(self, library: Any = None) -> None:
        self._library = _open() if library is None else library
        self._library.cudaGetErrorString.restype = ctypes.c_char_p
        handle = ctypes.c_void_p()
        self.call("cudaStreamCreate", ctypes.byref(handle))
        self.stream = int(handle.value or 0)

    def buffer(self, size: int) -> Buffer:
        """Device memory of so many bytes."""
        return Buffer(self, size)

    def wait(self) -> None:
        """Until all that was put on the stream is done."""
        self.call("cudaStreamSynchronize", ctypes.c_void_p(self.stream))

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the library.

        Raises:
            CudaError: it says that it failed.
        """
        code = getattr(self._library, name)(*arguments)
        if code:
            why = self._library.cudaGetErrorString(ctypes.c_int(code))
            raise CudaError(f"{name} failed with {code}: {(why or b'').decode(errors='replace')}")


class Buffer:
    """Device memory, freed at the end of the block or with `free`."""

    def __init__(self, device: Device, size: int) -> None:
        self._device, self.size = device, size
        self._address = ctypes.c_void_p()
        # A buffer without bytes has no address, which an engine would not take.
        device.call("cudaMalloc", ctypes.byref(self._address), ctypes.c_size_t(max(size, 1)))

    def __int__(self) -> int:
        return int(self._address.value or 0)

    def put(self, array: np.ndarray) -> None:
        """Copies a C-contiguous array to the device, and waits for that."""
        self._copy(self._address, _address(array), array.nbytes, _TO_DEVICE)

    def get(self, array: np.ndarray) -> None:
        """Copies from the device into a C-contiguous array, behind what the stream has still to do."""
        self._copy(_address(array), self._address, array.nbytes, _TO_HOST)

    def _copy(self, target: ctypes.c_void_p, source: ctypes.c_void_p, size: int, kind: int) -> None:
        if size > self.size:
            raise CudaError(f"{size} bytes do not fit a buffer of {self.size}")
        stream = ctypes.c_void_p(self._device.stream)
        count = ctypes.c_size_t(size)
        self._device.call("cudaMemcpyAsync", target, source, count, ctypes.c_int(kind), stream)
        self._device.wait()

    def free(self) -> None:
        """Gives the memory back; at most once."""
        if self._address.value is not None:
            self._device.call("cudaFree", self._address)
            self._address = ctypes.c_void_p()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()


def _address(array: np.ndarray) -> ctypes.c_void_p:
    if not array.flags.c_contiguous:
        raise ValueError("expected an array without gaps")
    return ctypes.c_void_p(array.ctypes.data)


def _open() -> Any:
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise CudaError("the CUDA runtime (libcudart) is not installed")


def _candidates() -> Iterator[str]:
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for package in _PACKAGES:
            yield from (str(path) for path in sorted(Path(folder, package).glob("libcudart.so*")))
    yield from _NAMES

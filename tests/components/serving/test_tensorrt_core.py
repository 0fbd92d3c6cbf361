"""An engine's runtime and its calibration, against a stand-in: there is no GPU here."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from components.errors import ServableError
from components.rewriter.techniques import tensorrt_calibration
from components.serving import cores, cuda, runtimes
from components.serving.servable import CORE_FILES
from components.serving.tensorrt_core import TensorRtCore
from tests.components.serving import fake_tensorrt
from tests.components.serving.fake_tensorrt import Cudart


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorrt", fake_tensorrt.MODULE)
    path = tmp_path / "model.plan"
    path.write_bytes(fake_tensorrt.PLAN)
    return path


def test_every_format_with_a_core_has_a_runtime() -> None:
    """Else an engine that was built would fail at judging."""
    assert set(CORE_FILES) == set(cores.CORES) < set(runtimes.RUNTIMES)


@pytest.mark.parametrize("count", [0, 1, 4, 11])
def test_an_engine_answers_batches_of_any_size(plan, count: int) -> None:
    """Those above its profile are cut, and no device memory is left behind."""
    library = Cudart()
    core = TensorRtCore(plan, library)
    given = np.arange(count * 3, dtype=np.float64).reshape(count, 3)[:, ::-1]
    if count == 0:
        with pytest.raises(ValueError, match="takes no input of the shape"):
            core(given)
        return
    scores = core(given)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(scores, 2 * given)
    assert library.held == {}


def test_a_call_that_fails_leaves_no_memory_behind(plan) -> None:
    library = Cudart()
    core = TensorRtCore(plan, library)
    core._device.stream = 5  # as of no stream
    with pytest.raises(cuda.CudaError, match="failed with 1"):
        core(np.zeros((1, 3), np.float32))
    assert library.held == {}


@pytest.mark.parametrize("failing", ["cudaStreamCreate", "cudaMalloc"])
def test_what_cuda_says_is_told(plan, failing: str) -> None:
    with pytest.raises((ServableError, cuda.CudaError), match=f"{failing} failed with 2: out of memory"):
        TensorRtCore(plan, Cudart(failing))(np.zeros((1, 3), np.float32))


def test_an_engine_of_another_kind_of_gpu(plan) -> None:
    plan.write_bytes(b"of another version")
    with pytest.raises(ServableError, match="another kind of GPU") as raised:
        TensorRtCore(plan, Cudart())
    assert "where it is served" in raised.value.remedy


def test_without_tensorrt_the_extra_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(ServableError, match="TensorRT is not installed") as raised:
        cores.open_core("tensorrt", tmp_path / "model.plan")
    assert "headrace[tensorrt]" in raised.value.remedy


def test_without_a_gpu_nothing_is_claimed(plan) -> None:
    """Whether libcudart is missing or finds no device."""
    with pytest.raises(ServableError, match="There is no GPU for an engine"):
        cores.open_core("tensorrt", plan)


@pytest.mark.parametrize(("count", "batches"), [(70, 2), (32, 1), (5, 1)])
def test_calibration_feeds_whole_batches_from_one_buffer(tmp_path, count: int, batches: int) -> None:
    library = Cudart()
    tensors = np.random.default_rng(1).normal(size=(count, 2, 3)).astype(np.float32)
    cache = tmp_path / "calibration.cache"
    made = tensorrt_calibration.calibrator(fake_tensorrt.MODULE, tensors, cache, library)
    assert made.made  # TensorRT's own constructor has run
    assert made.get_batch_size() == tensorrt_calibration.BATCH
    seen = []
    while (addresses := made.get_batch(["inputs"])) is not None:
        (address,) = addresses
        assert list(library.held) == [address]
        seen.append(fake_tensorrt.at(address, (32, 2, 3), np.float32).copy())
    assert len(seen) == batches
    expected = np.resize(tensors, (32, 2, 3)) if count < 32 else tensors[: 32 * batches]
    np.testing.assert_array_equal(np.concatenate(seen), expected)
    assert made.read_calibration_cache() is None
    made.write_calibration_cache(memoryview(b"ranges"))
    assert made.read_calibration_cache() == b"ranges"

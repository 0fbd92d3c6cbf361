"""What the TensorRT techniques share: ONNX, checked, and from it an engine for this GPU.

Building an engine needs the extra `tensorrt` and the very kind of GPU that will
serve it. Without, the ONNX is built and checked, and the technique says that
its engine was not verified. Where both are, the engine is built, which no test
has done, and judged by the runtime in `serving.tensorrt_core` as any other
candidate is; that was tested with a stand-in for TensorRT only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from components.rewriter.base import CORE_INPUT, CannotRun, TrainedModel
from components.rewriter.techniques import onnx_files
from components.rewriter.techniques.tensorrt_calibration import BATCH, calibrator
from components.serving import cuda
from components.serving.servable import CORE_FILES
from components.serving.triton import CONFIG_FILE, config

MAX_BATCH = 64
CALIBRATION_CACHE = "calibration.cache"


def build(trained: TrainedModel, folder: Path, *, int8: bool) -> None:
    """Writes the version folder with `model.plan`.

    Raises:
        CannotRun: the extra `onnx` or `tensorrt` is not installed, there is no
            GPU, or the engine cannot be built.
    """
    model = onnx_files.convert(trained)
    checked = f"its ONNX is built and checked ({len(model.graph.node)} nodes, opset {onnx_files.OPSET})"
    try:
        import tensorrt
    except ImportError as error:
        raise CannotRun(
            f"{checked}; the engine step is not verified here: the extra `tensorrt` is not installed"
        ) from error
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        raise CannotRun(f"{checked}; the engine step is not verified here: there is no GPU")
    shape = _shape(trained)  # before calibration: batches of other lengths could not be put together
    tensors = np.concatenate(trained.calibration_batches()) if int8 else None
    folder.mkdir(parents=True, exist_ok=True)
    try:
        plan = _engine(tensorrt, model.SerializeToString(), shape, tensors, folder / CALIBRATION_CACHE)
    except cuda.CudaError as error:
        raise CannotRun(f"{checked}; the engine step is not verified here: {error}") from error
    trained.write_tensor_model(folder, lambda path: _write(path, plan), CORE_FILES["tensorrt"])
    (folder / CONFIG_FILE).write_text(_config(trained))


def _shape(trained: TrainedModel) -> list[int]:
    shape = list(trained.core.inputs[0].shape[1:])
    if any(size is None for size in shape):
        raise CannotRun("TensorRT wants inputs of one shape; this core takes any")
    return [int(size) for size in shape]


def _write(path: Path, plan: bytes) -> None:
    path.write_bytes(plan)


def _config(trained: TrainedModel) -> str:
    return config(
        backend="tensorrt",
        inputs={CORE_INPUT: (trained.core.inputs[0].dtype.name, _shape(trained))},
        outputs={trained.contract.scores: ("float32", onnx_files.shape_of(trained.core.outputs[0]))},
    )


def _engine(trt: Any, model: bytes, shape: Sequence[int], tensors: np.ndarray | None, cache: Path) -> bytes:
    """A serialized engine for batches of 1 to 64; int8 where there are calibration tensors."""
    logger = trt.Logger(trt.Logger.WARNING)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(model):
        raise CannotRun(f"TensorRT does not take its ONNX: {parser.get_error(0)}")
    settings = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape(CORE_INPUT, (1, *shape), (BATCH, *shape), (MAX_BATCH, *shape))
    settings.add_optimization_profile(profile)
    settings.set_flag(trt.BuilderFlag.FP16)
    if tensors is not None:
        settings.set_flag(trt.BuilderFlag.INT8)
        settings.set_calibration_profile(profile)
        settings.int8_calibrator = calibrator(trt, tensors, cache)
    plan = builder.build_serialized_network(network, settings)
    if plan is None:
        raise CannotRun("TensorRT could not build an engine; its log says why")
    return bytes(plan)

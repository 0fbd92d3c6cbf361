"""What the ONNX techniques share: converting the core, and Triton's layout around it.

Triton wants `<model>/config.pbtxt` and `<model>/<version>/model.onnx`; the
version folder carries the configuration, and the Pusher puts a copy beside it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.rewriter import graphs
from components.rewriter.base import CORE_INPUT, CannotRun, TrainedModel
from components.serving.servable import CORE_FILES
from components.serving.triton import CONFIG_FILE, config

FILE = CORE_FILES["onnxruntime"]
OPSET = 17


def convert(trained: TrainedModel) -> Any:
    """The core as a checked ONNX model.

    Raises:
        CannotRun: the extra `onnx` is not installed.
    """
    try:
        import onnx
        import tf2onnx
    except ImportError as error:
        raise CannotRun(f"the extra `onnx` is not installed ({error.name} is missing)") from error
    graph, input_name, output_name = trained.portable_core()
    model, _ = tf2onnx.convert.from_graph_def(
        graphs.without_erfc(graph), input_names=[input_name], output_names=[output_name], opset=OPSET
    )
    _rename(model, input_name, CORE_INPUT)
    _rename(model, output_name, trained.contract.scores)
    model = onnx.shape_inference.infer_shapes(model)
    onnx.checker.check_model(model, full_check=True)
    return model


def _rename(model: Any, old: str, new: str) -> None:
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if value.name == old:
            value.name = new
    for node in model.graph.node:
        node.input[:] = [new if name == old else name for name in node.input]
        node.output[:] = [new if name == old else name for name in node.output]


def write(trained: TrainedModel, folder: Path, path: Path) -> None:
    """Lays out a version folder around an ONNX file."""
    given, made = trained.core.inputs[0], trained.core.outputs[0]
    trained.write_tensor_model(folder, lambda target: _move(path, target), FILE)
    text = config(
        backend="onnxruntime",
        inputs={CORE_INPUT: (given.dtype.name, shape_of(given))},
        outputs={trained.contract.scores: ("float32", shape_of(made))},
    )
    (folder / CONFIG_FILE).write_text(text)


def shape_of(tensor: Any) -> list[int]:
    """A tensor's shape as Triton wants it: without the batch, -1 for any size."""
    return [-1 if size is None else int(size) for size in tensor.shape[1:]]


def _move(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())

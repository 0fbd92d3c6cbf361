"""tf_trt_float16: TensorRT segments inside a SavedModel, where the installed TensorFlow has them.

TensorFlow's own wheels have not since 2.18; NVIDIA's builds of 2.17 do.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import tensorflow as tf

from components.rewriter import graphs
from components.rewriter.base import CannotRun, TrainedModel
from components.serving.servable import SIGNATURE_TENSORS


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel.

    Raises:
        CannotRun: this TensorFlow has no TensorRT, or there is no GPU.
    """
    if not tf.config.list_physical_devices("GPU"):
        raise CannotRun("there is no GPU; not verified here")
    with tempfile.TemporaryDirectory() as scratch:
        before, after = Path(scratch, "core"), Path(scratch, "converted")
        trained.write_core(before)
        try:
            converter = tf.experimental.tensorrt.Converter(
                input_saved_model_dir=str(before),
                input_saved_model_signature_key=SIGNATURE_TENSORS,
                conversion_params=tf.experimental.tensorrt.ConversionParams(precision_mode="FP16"),
            )
            converter.convert()
            converter.save(str(after))
        except (RuntimeError, ImportError, AttributeError) as error:
            raise CannotRun(f"this TensorFlow has no TensorRT: {error}") from error
        core = tf.saved_model.load(str(after)).signatures[SIGNATURE_TENSORS]
        graph = core.graph.as_graph_def()
        trained.write_saved_model(
            folder, graphs.as_function(graph, core.inputs[0].name, core.outputs[0].name)
        )

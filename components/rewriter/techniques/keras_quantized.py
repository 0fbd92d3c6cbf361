"""Keras's own quantization, of the layers that have it: Dense, EinsumDense, Embedding.

Convolutions stay as they are. The quantized `.keras` file of a model with
attention does not reload, so the core goes straight into a SavedModel.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from components.rewriter import graphs
from components.rewriter.base import CannotRun, TrainedModel

_QUANTIZED = ("Dense", "EinsumDense", "Embedding", "ReversibleEmbedding")


def build(trained: TrainedModel, folder: Path, mode: str) -> None:
    """Writes the SavedModel with a core that Keras quantized.

    Args:
        trained: the model.
        folder: the version folder.
        mode: Keras's, such as int8.

    Raises:
        CannotRun: there is no `.keras` model, or no layer that Keras quantizes.
    """
    model = trained.keras_model()
    share = _share(model)
    if share < 0.5:
        raise CannotRun(f"Keras quantizes dense layers only, which hold {share:.0%} of this model's weights")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one for each layer that stays as it is
        model.quantize(mode)
    tensor = trained.core.inputs[0]
    core = tf.function(lambda inputs: model(inputs, training=False))
    frozen_core = convert_variables_to_constants_v2(
        core.get_concrete_function(tf.TensorSpec(tensor.shape, tensor.dtype, name="inputs"))
    )
    names = frozen_core.inputs[0].name, frozen_core.outputs[0].name
    trained.write_saved_model(folder, graphs.as_function(frozen_core.graph.as_graph_def(), *names))


def _share(model: Any) -> float:
    """Share of a model's weights that lie in layers which Keras quantizes."""
    layers = [layer for layer in model._flatten_layers() if type(layer).__name__ in _QUANTIZED]
    held = {variable.path: variable for layer in layers for variable in layer.variables}
    count = sum(int(tf.size(variable.value)) for variable in held.values())
    return count / max(model.count_params(), 1)

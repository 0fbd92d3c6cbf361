"""float16: the frozen core with its weights stored in half precision.

The constants are cast back to float32 in the graph. TensorFlow folds those
casts when the model is first called, so computation stays in float32 at full
speed; what is halved is the size on disk and the time to read it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from components.rewriter import frozen
from components.rewriter.base import TrainedModel

_MIN_ELEMENTS = 16
"""Smaller constants (epsilons, scalars) are kept: a cast would cost more than it saves."""


def build(trained: TrainedModel, folder: Path) -> None:
    """Writes the SavedModel with half-precision weights."""
    graph, inputs, outputs = frozen.optimised_core(trained)
    trained.write_saved_model(folder, frozen.as_function(halve(graph), inputs, outputs))


def halve(graph_def: Any) -> Any:
    """A copy of a GraphDef in which large float32 constants are stored as float16."""
    halved = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if node.op != "Const" or node.attr["dtype"].type != tf.float32.as_datatype_enum:
            halved.node.add().CopyFrom(node)
            continue
        value = tf.make_ndarray(node.attr["value"].tensor)
        if value.size < _MIN_ELEMENTS or np.abs(value).max() > np.finfo(np.float16).max:
            halved.node.add().CopyFrom(node)
            continue
        _add_half_constant(halved, node, value)
    return halved


def _add_half_constant(graph_def: Any, node: Any, value: np.ndarray) -> None:
    half = graph_def.node.add(name=f"{node.name}/float16", op="Const", device=node.device)
    half.attr["dtype"].type = tf.float16.as_datatype_enum
    half.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value.astype(np.float16)))
    cast = graph_def.node.add(name=node.name, op="Cast", input=[half.name], device=node.device)
    cast.attr["SrcT"].type = tf.float16.as_datatype_enum
    cast.attr["DstT"].type = tf.float32.as_datatype_enum

"""Stores the large float32 constants of a GraphDef otherwise, and restores them in the graph."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

MIN_ELEMENTS = 16
"""Smaller constants (epsilons, scalars) are kept: restoring them would cost more than it saves."""

Replace = Callable[[Any, Any, np.ndarray], bool]
"""Adds to the graph what gives a constant's value under its name; False to keep the constant."""


def weights(graph_def: Any) -> list[np.ndarray]:
    """The large float32 constants of a GraphDef."""
    return [value for node in graph_def.node if (value := _weight(node)) is not None]


def _weight(node: Any) -> np.ndarray | None:
    if node.op != "Const" or node.attr["dtype"].type != tf.float32.as_datatype_enum:
        return None
    value = tf.make_ndarray(node.attr["value"].tensor)
    return value if value.size >= MIN_ELEMENTS else None


def is_kernel(value: np.ndarray) -> bool:
    """Whether a constant has two dimensions or more; biases and scales have one, and often begin as zeros."""
    return sum(size > 1 for size in value.shape) >= 2


def replaced(graph_def: Any, replace: Replace) -> Any:
    """A copy of a GraphDef in which `replace` has stored large float32 constants otherwise."""
    changed = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        value = _weight(node)
        if value is None or not replace(changed, node, value):
            changed.node.add().CopyFrom(node)
    return changed


def stored_as(graph_def: Any, dtype: tf.DType) -> Any:
    """A copy in which large float32 constants are stored as `dtype` and cast back.

    Constants whose values `dtype` cannot hold are kept.
    """

    def replace(graph: Any, node: Any, value: np.ndarray) -> bool:
        if np.abs(value).max() > float(dtype.max):
            return False
        half = _constant(graph, f"{node.name}/{dtype.name}", value.astype(dtype.as_numpy_dtype), node.device)
        cast = graph.node.add(name=node.name, op="Cast", input=[half], device=node.device)
        cast.attr["SrcT"].type = dtype.as_datatype_enum
        cast.attr["DstT"].type = tf.float32.as_datatype_enum
        return True

    return replaced(graph_def, replace)


def deflated(graph_def: Any, min_zeros: float) -> Any:
    """A copy in which float32 kernels with many zeros are stored deflated.

    Args:
        graph_def: the graph.
        min_zeros: share of zeros, in [0, 1], from which a constant is deflated.
    """

    def replace(graph: Any, node: Any, value: np.ndarray) -> bool:
        if not is_kernel(value) or float(np.mean(value == 0)) < min_zeros:
            return False
        packed = zlib.compress(np.ascontiguousarray(value).tobytes(), 9)
        stored = _constant(graph, f"{node.name}/deflated", np.array(packed, dtype=object), node.device)
        inflate = graph.node.add(name=f"{node.name}/inflated", op="DecodeCompressed", input=[stored])
        inflate.attr["compression_type"].s = b"ZLIB"
        decode = graph.node.add(name=f"{node.name}/decoded", op="DecodeRaw", input=[inflate.name])
        decode.attr["out_type"].type = tf.float32.as_datatype_enum
        shape = _constant(graph, f"{node.name}/shape", np.array(value.shape, np.int32), node.device)
        reshape = graph.node.add(name=node.name, op="Reshape", input=[decode.name, shape])
        reshape.attr["T"].type = tf.float32.as_datatype_enum
        reshape.attr["Tshape"].type = tf.int32.as_datatype_enum
        return True

    return replaced(graph_def, replace)


def _constant(graph: Any, name: str, value: np.ndarray, device: str) -> str:
    node = graph.node.add(name=name, op="Const", device=device)
    proto = tf.make_tensor_proto(value)
    node.attr["dtype"].type = proto.dtype
    node.attr["value"].tensor.CopyFrom(proto)
    return name

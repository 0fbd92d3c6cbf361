"""Stores the large float32 constants of a GraphDef otherwise, and restores them in the graph."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

MIN_ELEMENTS = 16
"""Smaller constants (epsilons, scalars) are kept: restoring them would cost more than it saves."""

_FOLDED = 10 * 2**20
"""TensorFlow folds constants of up to so many bytes as it loads (ConstantFoldingOptions)."""

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
        _inflate(graph, node.name, value, node.device)
        return True

    return replaced(graph_def, replace)


def rounded(graph_def: Any, bits: int) -> Any:
    """A copy in which float32 kernels are stored as integers with a scale per channel, deflated.

    Kernels that would not be smaller, or are not finite, are kept. Integers of
    few bits are far from equally frequent, so that Huffman's code takes less
    than the bits. TensorFlow folds constants of up to 10 MiB once, as it
    loads; larger ones are not deflated, since every call would inflate them.

    Args:
        graph_def: the graph.
        bits: of each integer with its sign, from 5 to 8.
    """

    def replace(graph: Any, node: Any, value: np.ndarray) -> bool:
        if not is_kernel(value) or not np.isfinite(value).all():
            return False
        made = _of_integers(node, *_integers(value, bits))
        # Of a small kernel the nodes that restore it take more than it does.
        if made.ByteSize() >= value.nbytes:
            return False
        graph.node.extend(made.node)
        return True

    return replaced(graph_def, replace)


def _of_integers(node: Any, numbers: np.ndarray, scale: np.ndarray) -> Any:
    """Nodes that give integers times scales under a constant's name."""
    graph = tf.compat.v1.GraphDef()
    whole = f"{node.name}/integers"
    if 4 * numbers.nbytes <= _FOLDED:
        _inflate(graph, whole, numbers, node.device)
    else:
        _constant(graph, whole, numbers, node.device)
    cast = graph.node.add(name=f"{node.name}/float", op="Cast", input=[whole], device=node.device)
    cast.attr["SrcT"].type = tf.int8.as_datatype_enum
    cast.attr["DstT"].type = tf.float32.as_datatype_enum
    step = _constant(graph, f"{node.name}/scale", scale, node.device)
    product = graph.node.add(name=node.name, op="Mul", input=[cast.name, step], device=node.device)
    product.attr["T"].type = tf.float32.as_datatype_enum
    return graph


def _integers(value: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Integers (int8) and float32 scales along the axis by which the least is lost."""

    def along(axis: int) -> tuple[float, np.ndarray, np.ndarray]:
        others = tuple(other for other in range(value.ndim) if other != axis)
        largest = np.abs(value).max(axis=others, keepdims=True)
        scale = np.where(largest > 0, largest / (2 ** (bits - 1) - 1), 1.0).astype(np.float32)
        numbers = np.rint(value / scale).astype(np.int8)
        return float(np.square(numbers * scale - value).sum()), numbers, scale

    choices = [along(axis) for axis, size in enumerate(value.shape) if size > 1]
    _, numbers, scale = min(choices, key=lambda choice: choice[0])
    return numbers, scale


def _inflate(graph: Any, name: str, value: np.ndarray, device: str) -> None:
    """Adds nodes that give a constant's value under `name`, and hold it deflated."""
    stored = _constant(graph, f"{name}/deflated", np.array(_deflate(value), dtype=object), device)
    inflate = graph.node.add(name=f"{name}/inflated", op="DecodeCompressed", input=[stored])
    inflate.attr["compression_type"].s = b"ZLIB"
    decode = graph.node.add(name=f"{name}/decoded", op="DecodeRaw", input=[inflate.name])
    decode.attr["out_type"].type = tf.as_dtype(value.dtype).as_datatype_enum
    shape = _constant(graph, f"{name}/shape", np.array(value.shape, np.int32), device)
    reshape = graph.node.add(name=name, op="Reshape", input=[decode.name, shape])
    reshape.attr["T"].type = tf.as_dtype(value.dtype).as_datatype_enum
    reshape.attr["Tshape"].type = tf.int32.as_datatype_enum


def _deflate(value: np.ndarray) -> bytes:
    """By repetitions where there are any (zeros of pruning), else by frequencies alone."""
    data = np.ascontiguousarray(value).tobytes()
    made = []
    for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY):
        packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS, 9, strategy)
        made.append(packer.compress(data) + packer.flush())
    return min(made, key=len)


def _constant(graph: Any, name: str, value: np.ndarray, device: str) -> str:
    node = graph.node.add(name=name, op="Const", device=device)
    proto = tf.make_tensor_proto(value)
    node.attr["dtype"].type = proto.dtype
    node.attr["value"].tensor.CopyFrom(proto)
    return name

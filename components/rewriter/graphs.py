"""GraphDefs of cores: as callable functions, and in operations that other formats know.

core = as_function(portable(graph_def), "inputs:0", "Identity:0")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


def as_function(graph_def: Any, input_name: str, output_name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """A callable, saveable core from a GraphDef with constants."""
    wrapped = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(graph_def, name=""), [])
    return wrapped.prune(
        wrapped.graph.get_tensor_by_name(input_name), wrapped.graph.get_tensor_by_name(output_name)
    )


def portable(graph_def: Any) -> Any:
    """A copy for converters, with the same values.

    A strided slice that only adds axes becomes ExpandDims: TFLite takes it as
    it is only where all sizes are known.
    """
    changed = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    constants = {node.name: node for node in graph_def.node if node.op == "Const"}
    for node in graph_def.node:
        axes = _added_axes(node, constants)
        if axes:
            _add_expansions(changed, node, axes)
        else:
            changed.node.add().CopyFrom(node)
    return changed


def without_erfc(graph_def: Any) -> Any:
    """A copy in which `Erfc(x)`, as in GELU, is `1 - Erf(x)`: tf2onnx knows that alone.

    TFLite's converter knows GELU by its Erfc, and no Erf by itself.
    """
    changed = tf.compat.v1.GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if node.op == "Erfc":
            _add_erfc(changed, node)
        else:
            changed.node.add().CopyFrom(node)
    return changed


def _add_erfc(graph: Any, node: Any) -> None:
    dtype = node.attr["T"].type
    inner = graph.node.add(name=f"{node.name}/erf", op="Erf", input=node.input, device=node.device)
    inner.attr["T"].type = dtype
    one = _constant(graph, f"{node.name}/one", np.array(1, tf.as_dtype(dtype).as_numpy_dtype))
    outer = graph.node.add(name=node.name, op="Sub", input=[one, inner.name], device=node.device)
    outer.attr["T"].type = dtype


def _added_axes(node: Any, constants: dict[str, Any]) -> list[int]:
    """The axes that a strided slice adds, where it does nothing else; else none."""
    if node.op != "StridedSlice" or node.input[1] not in constants or node.input[3] not in constants:
        return []
    # A step is looked at nowhere else: x[:, ::-1, None] turns an axis around.
    if (tf.make_ndarray(constants[node.input[3]].attr["value"].tensor) != 1).any():
        return []
    new, shrunk, ellipsis = (node.attr[f"{name}_mask"].i for name in ("new_axis", "shrink_axis", "ellipsis"))
    whole = node.attr["begin_mask"].i & node.attr["end_mask"].i
    count = tf.make_ndarray(constants[node.input[1]].attr["value"].tensor).size
    places = range(count)
    if not new or shrunk or any(not (new | whole | ellipsis) >> place & 1 for place in places):
        return []
    added = [place for place in places if new >> place & 1]
    if not ellipsis:
        return added
    start = ellipsis.bit_length() - 1
    behind = [place for place in added if place > start]
    # Counted from the end: the one added axis must be told from those that are there.
    if len(behind) > 1 or any(place > start and place not in behind for place in range(start + 1, count)):
        return []
    return [place for place in added if place < start] + [place - count for place in behind]


def _add_expansions(graph: Any, node: Any, axes: list[int]) -> None:
    value = node.input[0]
    for number, axis in enumerate(axes):
        last = number == len(axes) - 1
        name = node.name if last else f"{node.name}/expanded{number}"
        dim = _constant(graph, f"{node.name}/axis{number}", np.array(axis, np.int32))
        made = graph.node.add(name=name, op="ExpandDims", input=[value, dim], device=node.device)
        made.attr["T"].type = node.attr["T"].type
        made.attr["Tdim"].type = tf.int32.as_datatype_enum
        value = name


def _constant(graph: Any, name: str, value: np.ndarray) -> str:
    node = graph.node.add(name=name, op="Const")
    proto = tf.make_tensor_proto(value)
    node.attr["dtype"].type = proto.dtype
    node.attr["value"].tensor.CopyFrom(proto)
    return name

"""Graphs in operations that converters know: other nodes, the same values."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from components.rewriter import graphs

INPUT = np.random.default_rng(4).normal(size=(3, 5)).astype(np.float32)

SLICES = {
    "front": (lambda x: x[None], "ExpandDims", 1),
    "middle, twice": (lambda x: x[:, None, None, :], "ExpandDims", 2),
    "behind an ellipsis": (lambda x: x[..., None], "ExpandDims", 1),
    "with a cut": (lambda x: x[:, None, 1:3], "StridedSlice", 1),
    "turned around": (lambda x: x[:, ::-1, None], "StridedSlice", 1),
    "with a step": (lambda x: x[::2, None], "StridedSlice", 1),
    "none added": (lambda x: x[:, 1:3], "StridedSlice", 1),
}


def computed(graph_def, fetch: str) -> np.ndarray:
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.import_graph_def(graph_def, name="")
        return session.run(graph.get_tensor_by_name(fetch), {graph.get_tensor_by_name("x:0"): INPUT})


def graph_of(function):
    with tf.Graph().as_default() as graph:
        tf.identity(function(tf.compat.v1.placeholder(tf.float32, [None, None], "x")), name="y")
    return graph.as_graph_def()


@pytest.mark.parametrize("name", SLICES)
def test_added_axes(name: str) -> None:
    function, operation, count = SLICES[name]
    before = graph_of(function)
    after = graphs.portable(before)
    assert Counter(node.op for node in after.node)[operation] == count
    np.testing.assert_array_equal(computed(after, "y:0"), computed(before, "y:0"))


def test_erfc() -> None:
    before = graph_of(tf.math.erfc)
    after = graphs.without_erfc(before)
    assert "Erfc" not in {node.op for node in after.node}
    np.testing.assert_allclose(computed(after, "y:0"), computed(before, "y:0"), atol=3e-7)

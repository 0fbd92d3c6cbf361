"""Cuts a batch into micro-batches and sums what they give.

sums = accumulate(function, (images, labels), micro_batches=4)

The sum equals that of the whole batch, at a fraction of the memory; layers
that look across a batch (batch normalisation) see a micro-batch at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

Tensors = list[tf.Tensor]


def accumulate(
    function: Callable[..., Tensors], batch: tuple[Any, ...], micro_batches: int, *, unroll: bool = False
) -> Tensors:
    """Sum of `function(*micro_batch)` over the micro-batches.

    Sizes differ by at most one row, larger ones first, so any batch can be
    cut; a batch of fewer rows than micro-batches is cut into single rows.

    Args:
        function: returns tensors whose shapes do not depend on the rows.
        batch: nested tensors, (B, ...) each.
        micro_batches: at least 1.
        unroll: repeat the function in the graph, where it cannot be in a loop
            since it talks to other replicas; needs a row for each micro-batch.
    """
    if micro_batches == 1:
        return function(*batch)
    if unroll:
        parts = [function(*cut(batch, index, micro_batches)) for index in range(micro_batches)]
        return [tf.add_n(terms) for terms in zip(*parts, strict=True)]
    rows = tf.shape(tf.nest.flatten(batch)[0])[0]
    count = tf.minimum(tf.constant(micro_batches), tf.maximum(rows, 1))

    def part(index: tf.Tensor) -> Tensors:
        return function(*cut(batch, index, count))

    def body(index: tf.Tensor, sums: Tensors) -> tuple[tf.Tensor, Tensors]:
        return index + 1, [total + term for total, term in zip(sums, part(index), strict=True)]

    # The first part outside of the loop gives the loop's variables their shapes.
    first = part(tf.constant(0))
    _, sums = tf.while_loop(
        lambda index, sums: index < count, body, (tf.constant(1), first), parallel_iterations=1
    )
    return list(sums)


def cut(batch: Any, index: Any, parts: Any) -> Any:
    """Part `index` of nested (B, ...) tensors cut into `parts` along B.

    Parts differ by at most one row, larger ones first.
    """
    rows = tf.shape(tf.nest.flatten(batch)[0])[0]
    smaller, larger = rows // parts, rows % parts
    index = tf.cast(index, tf.int32)
    begin = index * smaller + tf.minimum(index, larger)
    size = smaller + tf.cast(index < larger, tf.int32)
    return tf.nest.map_structure(lambda tensor: tensor[begin : begin + size], batch)

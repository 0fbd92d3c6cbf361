"""Gradient clipping, after the gradients of all replicas are summed.

grads = clip("global_norm", 1.0, grads, squares)
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def squared_norms(grads: Sequence[tf.Tensor]) -> tf.Tensor:
    """Sum of squares of each tensor: (N,) float32. Not finite where the tensor is not."""
    return tf.stack([tf.reduce_sum(tf.square(tf.cast(grad, tf.float32))) for grad in grads])


def clip(kind: str, limit: float, grads: Sequence[tf.Tensor], squares: tf.Tensor) -> list[tf.Tensor]:
    """Clips gradients.

    Args:
        kind: `none`; `value`: each element to [-limit, limit]; `norm`: each
            tensor's Euclidean norm; `global_norm`: the norm over all tensors
            (Pascanu et al., 2013, arXiv:1211.5063).
        limit: what is kept to.
        grads: dense tensors.
        squares: of `squared_norms`; given, since the loop has them at hand.
    """
    if kind == "none":
        return list(grads)
    if kind == "value":
        return [tf.clip_by_value(grad, -limit, limit) for grad in grads]
    norms = tf.sqrt(squares if kind == "norm" else tf.reduce_sum(squares))
    factors = limit / tf.maximum(norms, limit)
    if kind == "global_norm":
        return [grad * tf.cast(factors, grad.dtype) for grad in grads]
    return [grad * tf.cast(factors[index], grad.dtype) for index, grad in enumerate(grads)]

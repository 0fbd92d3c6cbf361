"""Batch normalisation in one kernel while training.

    with fused(model) as count:
        ...      # trace and run training steps

Keras writes batch normalisation as a dozen element-wise operations, each of
which reads and writes the whole activation; TensorFlow's fused kernel computes
the same in two passes, and XLA fuses it too. Only the call of layer objects is
replaced, and put back afterwards: the model's configuration, weights and
exports do not change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

# cuDNN's smallest epsilon.
_MIN_EPSILON = 1.001e-5


def is_eligible(layer: keras.Layer) -> bool:
    """Whether a layer is batch normalisation that the fused kernel can compute.

    That is over images with channels last, with scale and offset, over each
    replica's own batch, and as Keras itself wrote it.
    """
    if type(layer) is not keras.layers.BatchNormalization or not layer.built:
        return False
    shape = layer.input_spec.ndim
    return (
        shape == 4
        and layer.axis in (3, -1)
        and bool(layer.scale and layer.center)
        and not layer.synchronized
        and not getattr(layer, "renorm", False)
        and layer.epsilon >= _MIN_EPSILON
    )


@contextlib.contextmanager
def fused(model: keras.Model, *, enabled: bool = True) -> Iterator[int]:
    """Eligible layers use the fused kernel inside; yields how many."""
    layers = [layer for layer in model._flatten_layers() if is_eligible(layer)] if enabled else []
    for layer in layers:
        layer.call = _fused_call(layer, layer.call)
    try:
        yield len(layers)
    finally:
        for layer in layers:
            del layer.call


def _fused_call(layer: Any, original: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    def call(inputs: tf.Tensor, training: bool | None = None, mask: tf.Tensor | None = None) -> tf.Tensor:
        if not training or not layer.trainable or mask is not None:
            return original(inputs, training=training, mask=mask)
        outputs, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            tf.cast(inputs, layer.compute_dtype),
            tf.convert_to_tensor(layer.gamma.value),
            tf.convert_to_tensor(layer.beta.value),
            epsilon=layer.epsilon,
            is_training=True,
        )
        # The kernel returns the unbiased variance; Keras averages the biased one.
        rows = tf.cast(tf.size(inputs) // inputs.shape[-1], tf.float32)
        variance *= (rows - 1) / rows
        for moving, value in ((layer.moving_mean, mean), (layer.moving_variance, variance)):
            moving.assign(moving * layer.momentum + value * (1 - layer.momentum))
        return outputs

    return call

"""Normalisation in few passes over the activation while training.

    with fused(model) as count:
        ...      # trace and run training steps

Keras writes batch normalisation as a dozen element-wise operations, each of
which reads and writes the whole activation; TensorFlow's fused kernel computes
the same in two passes, and XLA fuses it too. Layer normalisation gets its
gradient in closed form (Ba et al., 2016, arXiv:1607.06450): a third less time
than the gradients of its single operations. Only the call of layer objects is
replaced, and put back afterwards: the model's configuration, weights and
exports do not change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from modules.training.layer_calls import replaced

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


def has_closed_form(layer: keras.Layer) -> bool:
    """Whether a layer is layer normalisation over the last axis, with scale and offset, as Keras wrote it."""
    if type(layer) is not keras.layers.LayerNormalization or not layer.built:
        return False
    return layer.axis in ([-1], -1) and bool(layer.scale and layer.center) and not layer.rms_scaling


@contextlib.contextmanager
def fused(model: keras.Model, *, enabled: bool = True) -> Iterator[int]:
    """Eligible layers use the fast forms inside; yields how many."""
    count = 0
    with contextlib.ExitStack() as stack:
        for layer in model._flatten_layers() if enabled else ():
            if is_eligible(layer):
                stack.enter_context(replaced(layer, _fused_call(layer, layer.call)))
            elif has_closed_form(layer):
                stack.enter_context(replaced(layer, _closed_form_call(layer)))
            else:
                continue
            count += 1
        yield count


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


def _closed_form_call(layer: Any) -> Callable[[tf.Tensor], tf.Tensor]:
    def call(inputs: tf.Tensor) -> tf.Tensor:
        # As Keras does: 16 bits are too few for moments.
        outputs = normalize(
            tf.cast(inputs, tf.float32),
            tf.convert_to_tensor(layer.gamma.value),
            tf.convert_to_tensor(layer.beta.value),
            tf.constant(layer.epsilon, tf.float32),
        )
        return tf.cast(outputs, layer.compute_dtype)

    return call


@tf.custom_gradient
def normalize(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor | None, ...]]]:
    """Layer normalisation over the last axis.

    Args:
        x: (..., D) float32.
        gamma: (D,) float32.
        beta: (D,) float32.
        epsilon: () float32, added to the variance.
    """
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    scale = tf.math.rsqrt(tf.reduce_mean(tf.square(centred), -1, keepdims=True) + epsilon)
    normal = centred * scale

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor | None, ...]:
        others = list(range(len(x.shape) - 1))
        inner = upstream * gamma
        share = tf.reduce_mean(inner * normal, -1, keepdims=True)
        to_x = scale * (inner - tf.reduce_mean(inner, -1, keepdims=True) - normal * share)
        return to_x, tf.reduce_sum(upstream * normal, others), tf.reduce_sum(upstream, others), None

    return normal * gamma + beta, gradient

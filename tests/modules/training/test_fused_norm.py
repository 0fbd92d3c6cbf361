"""Layer normalisation with its gradient in closed form equals Keras's."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules.training import fused_norm


def _model(shape: tuple[int, ...], policy: str) -> keras.Model:
    inputs = keras.Input(shape)
    norm = keras.layers.LayerNormalization(epsilon=1e-5, dtype=policy, name="norm")
    model = keras.Model(inputs, norm(inputs))
    random = np.random.default_rng(3)
    model.get_layer("norm").set_weights([random.normal(size=shape[-1:]) for _ in range(2)])
    return model


def _outputs_and_gradients(model: keras.Model, x: tf.Tensor) -> list[np.ndarray]:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cast(model(x, training=True), tf.float32)
        loss = tf.reduce_sum(tf.sin(3.0 * y))
    grads = tape.gradient(loss, [x, *model.trainable_variables])
    return [y.numpy(), *(grad.numpy() for grad in grads)]


@pytest.mark.parametrize("shape", [(7,), (5, 8), (3, 2, 6)])
@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 2e-5), ("mixed_bfloat16", 2e-2)])
def test_values_and_gradients(shape: tuple[int, ...], policy: str, tolerance: float) -> None:
    model = _model(shape, policy)
    x = tf.constant(np.random.default_rng(1).normal(2.0, 3.0, (4, *shape)), tf.float32)
    expected = _outputs_and_gradients(model, x)
    with fused_norm.fused(model) as count:
        assert count == 1
        found = _outputs_and_gradients(model, x)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def test_other_kinds_are_left_to_keras() -> None:
    inputs = keras.Input((5, 8))
    outputs = [
        keras.layers.LayerNormalization(axis=1)(inputs),
        keras.layers.LayerNormalization(center=False)(inputs),
        keras.layers.RMSNormalization()(inputs),
    ]
    with fused_norm.fused(keras.Model(inputs, outputs)) as count:
        assert count == 0

"""Activations in one pass are Keras's, in value, in gradient and in a whole training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules.training import devices, fused_activations
from tests.modules.training import small

LARGE = (4, 256, 130)
"""More than `LEAST_ELEMENTS`, so compiled by XLA."""

ACTIVATIONS = {
    "gelu": lambda x: keras.ops.gelu(x, approximate=False),
    "gelu by tanh": lambda x: keras.ops.gelu(x),
    "gelu of a layer": keras.activations.gelu,
    "silu": keras.ops.silu,
    "hard_silu": keras.ops.hard_silu,
}


def _traced(activation: Callable[..., Any], x: np.ndarray, dtype: str, *, fused: bool) -> Any:
    """Value and gradient of an activation of unknown batch, and what was traced."""

    @tf.function(
        autograph=False, input_signature=[tf.TensorSpec([None, *x.shape[1:]], dtype)], reduce_retracing=True
    )
    def run(inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = activation(inputs)
            assert y.shape.as_list() == [None, *x.shape[1:]]
            loss = tf.reduce_sum(tf.sin(3.0 * tf.cast(y, tf.float32)))
        return y, tape.gradient(loss, inputs)

    with fused_activations.fused(enabled=fused):
        results = run(tf.cast(x, dtype))
    return [tf.cast(item, tf.float32).numpy() for item in results], _compiled_parts(run)


def _compiled_parts(function: Any) -> int:
    library = function.get_concrete_function().graph.as_graph_def().library
    return sum("_XlaMustCompile" in item.attr for item in library.function)


@pytest.mark.parametrize("shape", [LARGE, (2, 3, 4)])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_and_gradients(name: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(scale=2.0, size=shape).astype(np.float32)
    expected, none = _traced(ACTIVATIONS[name], x, "float32", fused=False)
    found, parts = _traced(ACTIVATIONS[name], x, "float32", fused=True)
    assert (none, parts) == (0, 2)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def test_sixteen_bits_are_rounded_once() -> None:
    x = np.random.default_rng(0).normal(scale=2.0, size=LARGE).astype(np.float32)
    x = tf.cast(tf.cast(x, tf.bfloat16), tf.float32).numpy()
    (exact, _), _ = _traced(ACTIVATIONS["gelu"], x, "float32", fused=False)
    (found, _), _ = _traced(ACTIVATIONS["gelu"], x, "bfloat16", fused=True)
    (keras_own, _), _ = _traced(ACTIVATIONS["gelu"], x, "bfloat16", fused=False)
    assert np.max(np.abs(found - exact) / np.maximum(np.abs(exact), 1e-3)) < 2**-8
    assert np.mean(np.abs(found - exact)) < np.mean(np.abs(keras_own - exact))


def test_doubles_are_left_to_keras() -> None:
    _, parts = _traced(keras.ops.silu, np.ones(LARGE), "float64", fused=True)
    assert parts == 0


def test_accelerators_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "describe", lambda: {"device": "GPU"})
    _, parts = _traced(keras.ops.silu, np.ones(LARGE, np.float32), "float32", fused=True)
    assert parts == 0


def _with_gelu() -> keras.Model:
    inputs = keras.Input((6, 6, 2))
    x = keras.layers.Dense(8, "gelu")(keras.layers.Flatten()(inputs))
    x = keras.layers.Activation("silu")(keras.layers.Dense(5)(x))
    return keras.Model(inputs, keras.layers.Dense(small.CLASSES, "softmax", dtype="float32")(x))


@pytest.mark.parametrize("settings", [{}, {"xla": "on"}, {"accumulate_steps": 3}, {"recompute": True}])
def test_a_training_is_the_same_training(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """With every activation compiled, however small; 70 examples leave a smaller last batch."""
    monkeypatch.setattr(fused_activations, "LEAST_ELEMENTS", 1)
    plain, first = small.fit(small.hparams(fused_activations=False), build=_with_gelu, examples=70)
    fused, second = small.fit(small.hparams(**settings), build=_with_gelu, examples=70)
    assert small.difference(small.weights(plain), small.weights(fused)) < 1e-5
    assert second.history["val_loss"] == pytest.approx(first.history["val_loss"], abs=1e-5)
    assert _compiled_parts(tf.function(fused, input_signature=[tf.TensorSpec([None, 6, 6, 2])])) == 0

"""A trained network that is made anew: the same, or refused before it is trained."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from modules.errors import TrainingError
from modules.training import rebuild
from tests.modules.training import small


@keras.saving.register_keras_serializable(package="tests")
class Places(keras.layers.Layer):
    """(B, 4, 8) with a learned vector added at each place."""

    def __init__(self, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.table = keras.layers.Embedding(4, 8)

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return x + self.table(keras.ops.arange(4))


def constant_places() -> keras.Model:
    """The embedding is computed while the network is built, and is a constant of this copy."""
    inputs = keras.Input((4, 8))
    x = inputs + keras.layers.Embedding(4, 8, embeddings_initializer="normal")(keras.ops.arange(4))
    return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(x)))


def learned_places() -> keras.Model:
    inputs = keras.Input((4, 8))
    return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Flatten()(Places()(inputs))))


def random_width() -> keras.Model:
    inputs = keras.Input((4, 8))
    width = int(np.random.default_rng().integers(8, 10_000))
    return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Dense(width)(inputs)))


def test_a_layer_on_a_constant_is_refused_before_training() -> None:
    with pytest.raises(
        TrainingError, match="with the same weights answer the same examples differently"
    ) as found:
        rebuild.check(constant_places, np.ones((2, 4, 8), "float32"))
    assert "ops.arange(n)" in found.value.remedy


def test_the_same_within_a_layer_is_not() -> None:
    rebuild.check(learned_places, np.ones((2, 4, 8), "float32"))
    rebuild.check(small.model, small.data()[0][:8])


def test_copies_of_different_shapes_are_refused() -> None:
    with pytest.raises(TrainingError, match="have different weights"):
        rebuild.check(random_width, np.ones((2, 4, 8), "float32"))

"""Optimizers by name, weight decay and layer-wise rates."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.training import optimizers
from tests.modules.training.small import hparams, model


@pytest.mark.parametrize("name", sorted(optimizers.known()))
def test_every_optimizer_of_keras_can_be_built_and_takes_a_step(name: str) -> None:
    built = model()
    optimizer = optimizers.build(hparams(optimizer=name, weight_decay=0.01), built)
    optimizer.apply([tf.ones_like(variable.value) for variable in built.trainable_variables])
    assert int(optimizer.iterations.numpy()) == 1


def test_options_reach_the_optimizer() -> None:
    optimizer = optimizers.build(
        hparams(optimizer="SGD", optimizer_options={"momentum": 0.9, "nesterov": True}), model()
    )
    assert (optimizer.momentum, optimizer.nesterov) == (0.9, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optimizer": "adamv"}, "no optimizer 'adamv'.*Did you mean 'adam"),
        ({"optimizer_options": {"momentun": 0.9}}, "SGD has no option 'momentun'.*'momentum'"),
        ({"optimizer_options": {"clipnorm": 1.0}}, "has no option 'clipnorm'"),
        ({"optimizer_options": {"momentum": -1.0}}, "refuses its options"),
    ],
)
def test_mistakes_name_the_nearest_known_word(changes: dict[str, object], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        optimizers.build(hparams(**changes), model())


@pytest.mark.parametrize(("everything", "bias_after"), [(False, 1.0), (True, 0.95)])
def test_decay_spares_norms_and_biases(everything: bool, bias_after: float) -> None:
    built = model(norm=True)
    for variable in built.trainable_variables:
        variable.assign(tf.ones_like(variable.value))
    optimizer = optimizers.build(
        hparams(weight_decay=0.1, learning_rate=0.5, decay_norms_and_biases=everything), built
    )
    optimizer.apply([tf.zeros_like(variable.value) for variable in built.trainable_variables])
    for variable in built.trainable_variables:
        expected = bias_after if len(variable.shape) == 1 else 0.95
        np.testing.assert_allclose(variable.numpy(), expected, rtol=1e-6)


def test_lower_layers_move_less() -> None:
    built = model()
    before = [variable.numpy() for variable in built.trainable_variables]
    optimizer = optimizers.build(hparams(optimizer="adam", learning_rate=0.1, layer_decay=0.5), built)
    optimizer.apply([tf.ones_like(variable.value) for variable in built.trainable_variables])
    moved = {
        variable.path: float(np.max(old - variable.numpy()))
        for old, variable in zip(before, built.trainable_variables, strict=True)
    }
    assert moved["scores/kernel"] == pytest.approx(0.1, rel=1e-3)
    assert moved["conv/kernel"] == pytest.approx(0.05, rel=1e-3)


def test_layer_factors_count_from_the_top() -> None:
    built = keras.Sequential([keras.Input((2,)), *(keras.layers.Dense(2) for _ in range(3))])
    factors = optimizers.layer_factors(built, 0.1)
    kernels = [factors[id(layer.kernel)] for layer in built.layers]
    assert kernels == pytest.approx([0.01, 0.1, 1.0])

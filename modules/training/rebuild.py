"""A network made anew with the same weights: in other numbers, or free of its strategy.

check(build, inputs)                # before training, where the trained model will be made anew
served = in_float32(model, build)   # after it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modules.errors import TrainingError
from modules.training import precision

_SAME = 1e-4
"""Relative to the largest answer; two float32 copies of a network differ by less, whatever their kernels."""


def in_float32(model: keras.Model, build: Callable[[], keras.Model]) -> keras.Model:
    """The model with the same weights in float32: what is served runs on machines of all kinds.

    Args:
        model: trained under any policy and strategy.
        build: makes the same architecture anew.
    """
    with precision.policy(precision.FLOAT32):
        copy = build()
    _give_weights(copy, model)
    return copy


def check(build: Callable[[], keras.Model], inputs: Any) -> None:
    """Refuses a network whose answers are not settled by its weights.

    In Keras's functional style a layer that is called on a constant, such as
    an embedding of `arange(64)`, is computed at once: its weights are no part
    of the model, do not learn, and are others in each copy. What is served
    would then answer at random after a training that looked well.

    Args:
        build: makes the network.
        inputs: a batch as the network takes it.

    Raises:
        TrainingError: two copies with the same weights answer differently.
    """
    with precision.policy(precision.FLOAT32):
        first, second = build(), build()
    if [variable.shape for variable in first.variables] != [variable.shape for variable in second.variables]:
        raise _unsettled("have different weights")
    _give_weights(second, first)
    one, other = (np.concatenate(_flat(copy(inputs, training=False))) for copy in (first, second))
    shift = float(np.abs(one - other).max())
    if shift > _SAME * max(1.0, float(np.abs(one).max())):
        raise _unsettled(f"with the same weights answer the same examples differently (by up to {shift:.2g})")


def _give_weights(copy: keras.Model, model: keras.Model) -> None:
    for target, source in zip(copy.variables, model.variables, strict=True):
        target.assign(source.numpy())


def _flat(answer: Any) -> list[np.ndarray]:
    return [np.ravel(part.numpy()) for part in tf.nest.flatten(answer)]


def _unsettled(what: str) -> TrainingError:
    return TrainingError(
        f"Two copies of the network {what}, so what is served would not be what was trained",
        place="model.name",
        remedy="A layer called on a constant (Embedding(...)(ops.arange(n))) keeps its weights out of the "
        "model: call it inside a layer of your own, or on something that comes from the input. Draw nothing "
        "at random while the network is built.",
    )

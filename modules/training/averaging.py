"""Exponential moving average of the weights.

average = WeightAverage(model.trainable_variables, 0.999)
average.update(strategy)            # once a step, outside of the replicas
with average.applied():             # to judge, and to serve
    ...
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import keras
import tensorflow as tf


class WeightAverage:
    """A second set of weights that follows the first slowly (Polyak and Juditsky, 1992).

    Early on the average follows faster, by min(momentum, (1 + n) / (10 + n))
    after n updates, so that it does not remember the initial weights.
    """

    def __init__(self, variables: Sequence[keras.Variable], momentum: float) -> None:
        """Starts from the present weights. Call inside the strategy's scope."""
        self._sources = [variable.value for variable in variables]
        self._momentum = momentum
        self.averages = [tf.Variable(source, trainable=False, name="average") for source in self._sources]
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="average_updates")

    @property
    def variables(self) -> list[tf.Variable]:
        return [*self.averages, self.updates]

    def update(self, strategy: tf.distribute.Strategy) -> None:
        """Moves the average towards the present weights."""
        done = tf.cast(self.updates, tf.float32)
        keep = tf.minimum(self._momentum, (1 + done) / (10 + done))
        for average, source in zip(self.averages, self._sources, strict=True):
            strategy.extended.update(average, _follow, args=(source, keep))
        self.updates.assign_add(1)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """The model holds the average inside, and its own weights again afterwards."""
        own = [source.numpy() for source in self._sources]
        self.apply()
        try:
            yield
        finally:
            for source, value in zip(self._sources, own, strict=True):
                source.assign(value)

    def apply(self) -> None:
        """The model holds the average from now on."""
        for source, average in zip(self._sources, self.averages, strict=True):
            source.assign(average.numpy())


def _follow(average: tf.Variable, source: tf.Tensor, keep: tf.Tensor) -> None:
    average.assign(average + (1 - tf.cast(keep, average.dtype)) * (tf.convert_to_tensor(source) - average))

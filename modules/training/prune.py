"""Magnitude pruning: small weights become zero, more and more of them, and stay zero.

    pruning = Pruning(model, hparams.prune, epochs=30)
    loop.fit(..., extensions=[pruning.extension])
    pruning.finish(served)

After Zhu and Gupta (2017, arXiv:1710.01878): the share of zeros rises by a
polynomial from the beginning to the end of the schedule, at which point the
masks are final; what follows is fine-tuning of the weights that are left.
Masks are variables beside the model, so what is exported holds plain weights,
many of them zero, and nothing of the pruning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.train import PruneHparams
from modules.training.extensions import Extension, Update

_LAYERS = (keras.layers.Dense, keras.layers.EinsumDense, keras.layers.Conv1D, keras.layers.Conv2D)


def kernels(model: keras.Model) -> list[keras.Variable]:
    """What is pruned: kernels of dense layers and convolutions, pointwise ones of separable convolutions.

    Depthwise kernels have a few weights a channel, and lose much with each.
    """
    found = []
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.SeparableConv2D | keras.layers.SeparableConv1D):
            found.append(layer.pointwise_kernel)
        elif isinstance(layer, _LAYERS) and layer.built:
            found.append(layer.kernel)
    return found


class Pruning:
    """The masks of one model, and the extension that makes and keeps them."""

    def __init__(self, model: keras.Model, hparams: PruneHparams, *, epochs: int) -> None:
        """Call in the strategy's scope.

        Args:
            model: built, with the layers frozen that rest as it is pruned.
            hparams: how many zeros, and when.
            epochs: of the training; the schedule is a share of them.

        Raises:
            TrainingError: the model has no kernel to prune.
        """
        # Zeros in a layer that rests would never be made up for.
        self._places = [place for place, kernel in enumerate(kernels(model)) if kernel.trainable]
        self._targets = [kernels(model)[place] for place in self._places]
        if not self._targets:
            raise TrainingError(
                "The model has no dense layer or convolution to prune that is trained",
                place="train.prune",
                remedy="Leave train.prune out.",
            )
        self._hparams = hparams
        self._masks = [
            _variable(tf.ones(kernel.shape), f"mask_{index}") for index, kernel in enumerate(self._targets)
        ]
        self._span = _variable(tf.zeros(2), "pruning_span")
        self.extension = Extension(
            after_update=self._after_update,
            variables=[*self._masks, self._span],
            callbacks=[_Span(self._span, hparams)],
            # The first epoch at whose end the masks are final.
            best_from_epoch=min(epochs, math.ceil(epochs * hparams.end)),
        )

    def _after_update(self, step: tf.Tensor, update: Update) -> None:
        new = tf.cond(
            self._due(step),
            lambda: self._thresholded(step),
            lambda: [tf.convert_to_tensor(mask) for mask in self._masks],
        )
        for kernel, mask, values in zip(self._targets, self._masks, new, strict=True):
            update(mask, lambda old, value: value, values)
            update(kernel, lambda value, kept: value * kept, values)

    def _due(self, step: tf.Tensor) -> tf.Tensor:
        """Every so many steps until the end of the schedule, and there."""
        now = tf.cast(step, tf.float32)
        regular = tf.logical_and(step % self._hparams.every_steps == 0, now < self._span[1])
        return tf.logical_or(regular, tf.equal(now, self._span[1]))

    def _thresholded(self, step: tf.Tensor) -> list[tf.Tensor]:
        values = [tf.convert_to_tensor(kernel.value) for kernel in self._targets]
        share = sparsity_at(step, self._span[0], self._span[1], self._hparams.sparsity)
        return _global(values, share) if self._hparams.scope == "global" else _per_layer(values, share)

    def finish(self, served: keras.Model) -> keras.Model:
        """Puts the zeros into a copy of the model; averaged weights only come near to zero."""
        found = kernels(served)
        for place, mask in zip(self._places, self._masks, strict=True):
            found[place].assign(found[place].numpy() * mask.numpy())
        return served


def sparsity_at(step: tf.Tensor, begin: tf.Tensor, end: tf.Tensor, final: float) -> tf.Tensor:
    """The share of zeros after a step: 0 up to `begin`, `final` from `end` on, cubic between.

    Returns:
        () float32 in [0, 1).
    """
    passed = (tf.cast(step, tf.float32) - begin) / tf.maximum(end - begin, 1.0)
    return final * (1.0 - tf.pow(1.0 - tf.clip_by_value(passed, 0.0, 1.0), 3.0))


def _per_layer(values: Sequence[tf.Tensor], sparsity: tf.Tensor) -> list[tf.Tensor]:
    """Masks of 0 and 1: in each kernel the smallest share of magnitudes is 0."""
    return [_kept(tf.abs(value), _quantile(tf.abs(value), sparsity)) for value in values]


def _global(values: Sequence[tf.Tensor], sparsity: tf.Tensor) -> list[tf.Tensor]:
    """Masks of 0 and 1: the smallest share of all kernels' magnitudes is 0.

    Magnitudes count relative to their kernel's mean square, since layers differ
    in scale by their width alone.
    """
    relative = [tf.abs(value) * tf.math.rsqrt(tf.reduce_mean(tf.square(value)) + 1e-12) for value in values]
    limit = _quantile(tf.concat([tf.reshape(value, [-1]) for value in relative], 0), sparsity)
    return [_kept(value, limit) for value in relative]


def _kept(magnitudes: tf.Tensor, limit: tf.Tensor) -> tf.Tensor:
    return tf.cast(magnitudes > limit, tf.float32)


def _quantile(magnitudes: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """The value up to which `share` of the magnitudes lie; below all of them where the share is 0."""
    ordered = tf.sort(tf.reshape(magnitudes, [-1]))
    count = tf.cast(tf.round(share * tf.cast(tf.size(ordered), tf.float32)), tf.int32)
    return tf.where(count > 0, ordered[tf.maximum(count - 1, 0)], -1.0)


class _Span(keras.callbacks.Callback):
    """Sets the first and last step of the schedule, once the length of the training is known."""

    def __init__(self, span: tf.Variable, hparams: PruneHparams) -> None:
        super().__init__()
        self._span, self._hparams = span, hparams

    def on_train_begin(self, logs: Any = None) -> None:
        steps = self.params["epochs"] * self.params["steps"]
        ends = [math.floor(steps * self._hparams.begin), max(1, math.floor(steps * self._hparams.end))]
        self._span.assign([float(end) for end in ends])


def _variable(value: tf.Tensor, name: str) -> tf.Variable:
    return tf.Variable(value, trainable=False, name=name)


def sparsity(model: keras.Model) -> float:
    """The share of zeros among the weights that are pruned, in [0, 1]."""
    zeros = sum(int(tf.math.count_nonzero(kernel.value == 0)) for kernel in kernels(model))
    return zeros / sum(math.prod(kernel.shape) for kernel in kernels(model))

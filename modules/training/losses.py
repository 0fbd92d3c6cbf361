"""Losses per example, by name.

    loss = build(hparams, class_weights=(0.5, 1.5))
    loss(labels, predictions)      # (B,) float32

Classification: labels are class ids (B,) integer, or one-hot (B, C);
predictions are probabilities (B, C) float32. Regression: both (B,) or (B, 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.train import TrainHparams

Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

CLASSIFICATION = ("cross_entropy", "focal")


def build(hparams: TrainHparams, class_weights: Sequence[float] | None = None) -> Loss:
    """The loss that `hparams.loss` names.

    Args:
        hparams: name and settings of the loss.
        class_weights: one weight per class, multiplied with the loss of each example.

    Raises:
        TrainingError: there is no loss of that name.
    """
    if hparams.loss not in LOSSES:
        raise TrainingError(
            f"There is no loss {hparams.loss!r}",
            place="train.loss",
            remedy=f"Known: {', '.join(sorted(LOSSES))}.",
        )
    loss = LOSSES[hparams.loss](hparams)
    if class_weights is None or hparams.loss not in CLASSIFICATION:
        return loss
    return _weighted(loss, class_weights)


def balanced_weights(counts: Sequence[int]) -> tuple[float, ...]:
    """Weights by the inverse of each class's count, whose mean over the examples is 1.

    A class without examples gets 0: nothing is known of it.
    """
    present = sum(1 for count in counts if count)
    total = sum(counts)
    return tuple(total / (present * count) if count else 0.0 for count in counts)


def one_hot(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Labels as (B, C) float32, from class ids (B,), (B, 1), or one-hot already."""
    if labels.shape.rank == predictions.shape.rank and labels.dtype.is_floating:
        return labels
    ids = tf.reshape(tf.cast(labels, tf.int32), [-1])
    return tf.one_hot(ids, predictions.shape[-1])


def _cross_entropy(hparams: TrainHparams) -> Loss:
    loss = keras.losses.CategoricalCrossentropy(label_smoothing=hparams.label_smoothing, reduction=None)
    return lambda labels, predictions: loss(one_hot(labels, predictions), predictions)


def _focal(hparams: TrainHparams) -> Loss:
    """Lin et al. (2017, arXiv:1708.02002), without its balancing factor: `class_weights` does that."""
    loss = keras.losses.CategoricalFocalCrossentropy(
        alpha=1.0, gamma=hparams.focal_gamma, label_smoothing=hparams.label_smoothing, reduction=None
    )
    return lambda labels, predictions: loss(one_hot(labels, predictions), predictions)


def _columns(labels: tf.Tensor, predictions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    flat = tf.reshape(predictions, [-1, 1])
    return tf.reshape(tf.cast(labels, flat.dtype), [-1, 1]), flat


def _mse(hparams: TrainHparams) -> Loss:
    loss = keras.losses.MeanSquaredError(reduction=None)
    return lambda labels, predictions: loss(*_columns(labels, predictions))


def _huber(hparams: TrainHparams) -> Loss:
    loss = keras.losses.Huber(delta=hparams.huber_delta, reduction=None)
    return lambda labels, predictions: loss(*_columns(labels, predictions))


def _weighted(loss: Loss, class_weights: Sequence[float]) -> Loss:
    weights = tf.constant(class_weights, tf.float32)

    def weighted(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        weight = tf.linalg.matvec(one_hot(labels, predictions), weights)
        return loss(labels, predictions) * weight

    return weighted


LOSSES: dict[str, Callable[[TrainHparams], Loss]] = {
    "cross_entropy": _cross_entropy,
    "focal": _focal,
    "mse": _mse,
    "huber": _huber,
}

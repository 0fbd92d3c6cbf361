"""Metrics per example, whose mean over an epoch is the metric.

metrics = for_loss("cross_entropy")      # {"accuracy": function}

Only what is a mean over examples, so that sums over steps, micro-batches and
replicas are exact; the Evaluator measures everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from modules.training import losses

Metric = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def accuracy(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """1 where the most probable class is the label's: (B,) float32."""
    truth = tf.argmax(losses.one_hot(labels, predictions), axis=-1)
    return tf.cast(tf.equal(truth, tf.argmax(predictions, axis=-1)), tf.float32)


def absolute_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    """Distance between label and prediction: (B,) float32."""
    flat = tf.reshape(predictions, [-1])
    return tf.abs(tf.reshape(tf.cast(labels, flat.dtype), [-1]) - flat)


def for_loss(loss: str) -> Mapping[str, Metric]:
    """The metrics of the task that a loss belongs to."""
    if loss in losses.CLASSIFICATION:
        return {"accuracy": accuracy}
    return {"mean_absolute_error": absolute_error}

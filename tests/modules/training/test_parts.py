"""Losses, metrics, clipping, accumulation, averaging: exact values."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.training import clipping, losses, metrics
from modules.training.accumulation import accumulate, cut
from modules.training.averaging import WeightAverage
from tests.modules.training.small import hparams

SCORES = tf.constant([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25]])


def test_cross_entropy_takes_ids_and_one_hot() -> None:
    loss = losses.build(hparams(loss="cross_entropy"))
    expected = [-np.log(0.7), -np.log(0.25)]
    np.testing.assert_allclose(loss(tf.constant([0, 2]), SCORES), expected, rtol=1e-6)
    np.testing.assert_allclose(loss(tf.constant([[0], [2]]), SCORES), expected, rtol=1e-6)
    np.testing.assert_allclose(loss(tf.one_hot([0, 2], 3), SCORES), expected, rtol=1e-6)


def test_label_smoothing_spreads_the_target() -> None:
    loss = losses.build(hparams(loss="cross_entropy", label_smoothing=0.3))
    expected = -(0.8 * np.log(0.7) + 0.1 * np.log(0.2) + 0.1 * np.log(0.1))
    np.testing.assert_allclose(loss(tf.constant([0]), SCORES[:1]), [expected], rtol=1e-6)


def test_focal_lowers_what_is_already_right() -> None:
    loss = losses.build(hparams(loss="focal", focal_gamma=2.0))
    np.testing.assert_allclose(
        loss(tf.constant([0, 2]), SCORES),
        [-(0.3**2) * np.log(0.7), -(0.75**2) * np.log(0.25)],
        rtol=1e-5,
    )


def test_regression_losses() -> None:
    labels, predictions = tf.constant([1.0, 5.0]), tf.constant([[1.5], [2.0]])
    np.testing.assert_allclose(losses.build(hparams(loss="mse"))(labels, predictions), [0.25, 9.0])
    np.testing.assert_allclose(
        losses.build(hparams(loss="huber", huber_delta=1.0))(labels, predictions), [0.125, 2.5]
    )
    error = metrics.for_loss("mse")["mean_absolute_error"]
    np.testing.assert_allclose(error(labels, predictions), [0.5, 3.0])


def test_class_weights_are_inverse_counts_with_mean_one() -> None:
    weights = losses.balanced_weights([30, 10, 0])
    assert weights == pytest.approx((40 / 60, 2.0, 0.0))
    assert (30 * weights[0] + 10 * weights[1]) / 40 == pytest.approx(1.0)
    loss = losses.build(hparams(loss="cross_entropy"), weights)
    np.testing.assert_allclose(loss(tf.constant([1]), SCORES[:1]), [-2.0 * np.log(0.2)], rtol=1e-6)


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(TrainingError, match="no loss 'hinge'"):
        losses.build(hparams(loss="hinge"))


def test_accuracy_is_one_where_the_best_class_is_right() -> None:
    accuracy = metrics.for_loss("focal")["accuracy"]
    np.testing.assert_array_equal(accuracy(tf.constant([0, 0]), SCORES), [1.0, 0.0])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("none", [[3.0, 4.0], [12.0]]),
        ("value", [[2.0, 2.0], [2.0]]),
        ("norm", [[1.2, 1.6], [2.0]]),
        ("global_norm", [[6 / 13, 8 / 13], [24 / 13]]),
    ],
)
def test_clipping(kind: str, expected: list[list[float]]) -> None:
    grads = [tf.constant([3.0, 4.0]), tf.constant([12.0])]
    clipped = clipping.clip(kind, 2.0, grads, clipping.squared_norms(grads))
    for value, wanted in zip(clipped, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


def test_clipping_leaves_small_gradients_as_they_are() -> None:
    grads = [tf.constant([0.3, 0.4])]
    for kind in ("value", "norm", "global_norm"):
        np.testing.assert_array_equal(
            clipping.clip(kind, 2.0, grads, clipping.squared_norms(grads))[0], grads[0]
        )


def test_cuts_differ_by_one_row_and_lose_none() -> None:
    rows = tf.range(11)
    parts = [cut((rows,), index, 4)[0].numpy().tolist() for index in range(4)]
    assert parts == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]


@pytest.mark.parametrize("unroll", [False, True])
def test_accumulation_sums_every_row_once(unroll: bool) -> None:
    def sums(values: tf.Tensor) -> list[tf.Tensor]:
        return [tf.reduce_sum(values), tf.cast(tf.shape(values)[0], tf.float32)]

    total, rows = accumulate(sums, (tf.range(11.0),), 4, unroll=unroll)
    assert (float(total), float(rows)) == (55.0, 11.0)


def test_accumulation_of_fewer_rows_than_parts() -> None:
    calls = accumulate(lambda values: [tf.reduce_sum(values)], (tf.constant([1.0, 2.0]),), 5)
    assert float(calls[0]) == 3.0


def test_the_average_follows_fast_at_first_and_can_be_taken_back() -> None:
    variable = keras.Variable([0.0])
    average = WeightAverage([variable], momentum=0.99)
    variable.assign([1.0])
    average.update(tf.distribute.get_strategy())
    np.testing.assert_allclose(average.averages[0], [0.9])  # keeps (1 + 0) / (10 + 0)
    average.update(tf.distribute.get_strategy())
    np.testing.assert_allclose(average.averages[0], [0.9 + 0.1 * 9 / 11], rtol=1e-6)
    with average.applied():
        np.testing.assert_allclose(variable.numpy(), average.averages[0])
    np.testing.assert_array_equal(variable.numpy(), [1.0])

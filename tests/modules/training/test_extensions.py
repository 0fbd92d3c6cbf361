"""What a task adds to training: losses, metrics, masks, its own state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.train import CheckpointHparams
from modules.training.checkpoints import CheckpointStore
from modules.training.extensions import Extension, Extensions
from tests.modules.training import small
from tests.modules.training.small import difference, fit, hparams, weights


def with_extension(make: Any, **settings: Any) -> tuple[keras.Model, Any]:
    """Trains with the extension that `make(model)` gives."""
    made = small.model()
    model, report = fit(hparams(**settings), build=lambda: made, extensions=[make(made)])
    return model, report


def test_an_extra_loss_is_minimised_and_not_judged() -> None:
    """Twice the loss, once by weight and once by a second term, is twice the rate under SGD."""

    def again(features: Any, labels: Any, predictions: Any) -> tf.Tensor:
        return keras.losses.sparse_categorical_crossentropy(labels, predictions)

    keras.utils.set_random_seed(5)
    first = small.model()
    start = first.get_weights()

    def same() -> keras.Model:
        model = small.model()
        model.set_weights(start)
        return model

    twice, report = fit(hparams(learning_rate=0.1), build=same)
    added, extra = fit(hparams(), build=same, extensions=[Extension(extra_loss=again)])
    weighted, _ = fit(hparams(), build=same, extensions=[Extension(loss_weight=2.0)])
    assert difference(weights(twice), weights(added)) < 1e-6
    assert difference(weights(twice), weights(weighted)) < 1e-6
    assert extra.history["loss"] == pytest.approx(report.history["loss"], rel=1e-5)


@pytest.mark.parametrize("settings", [{}, {"xla": "on"}, {"ema_momentum": 0.5}])
def test_a_mask_holds_after_every_update(settings: dict[str, Any]) -> None:
    def masked(model: keras.Model) -> Extension:
        kernel = model.get_layer("conv").kernel
        mask = tf.Variable(np.arange(kernel.numpy().size).reshape(kernel.shape) % 2, dtype=tf.float32)
        kernel.assign(kernel * mask)
        return Extension(
            after_update=lambda step, update: update(kernel, lambda value, keep: value * keep, mask),
            variables=[mask],
        )

    model, _ = with_extension(masked, **settings)
    kernel = model.get_layer("conv").kernel.numpy().ravel()
    assert not kernel[::2].any()
    assert np.all(kernel[1::2] != 0)


def test_it_is_told_the_step_and_its_state_is_in_checkpoints(tmp_path: Path) -> None:
    checkpoint = CheckpointHparams(every_steps=3, every_minutes=0.0)

    def counting(count: tf.Variable) -> Extension:
        return Extension(
            after_update=lambda step, update: update(count, lambda value, now: value + now, step),
            variables=[count],
        )

    count = tf.Variable(0, dtype=tf.int64, trainable=False)
    store = CheckpointStore(str(tmp_path), identity={})
    fit(hparams(checkpoint=checkpoint), store=store, extensions=[counting(count)])
    assert count.numpy() == sum(range(1, 9))
    again = tf.Variable(0, dtype=tf.int64, trainable=False)
    _, report = fit(hparams(checkpoint=checkpoint), store=store, extensions=[counting(again)])
    assert report.resumed_from_step == 6
    assert again.numpy() == count.numpy()


def test_loss_and_metrics_are_replaced_everywhere() -> None:
    def brier(labels: Any, predictions: Any) -> tf.Tensor:
        return tf.reduce_sum(tf.square(tf.one_hot(labels, small.CLASSES) - predictions), axis=-1)

    def top(labels: Any, predictions: Any) -> tf.Tensor:
        return tf.reduce_max(predictions, axis=-1)

    _, report = fit(hparams(), extensions=[Extension(loss=brier, metrics={"top": top})])
    assert set(report.history) == {"loss", "top", "val_loss", "val_top"}
    assert 0 < report.history["val_loss"][0] < 1
    with pytest.raises(TrainingError, match="Two extensions of this training give losses"):
        Extensions((Extension(loss=brier), Extension(loss=brier))).loss(brier)


def test_what_is_around_is_left_again_and_callbacks_are_called() -> None:
    seen: list[str] = []

    @contextlib.contextmanager
    def around(model: keras.Model) -> Iterator[None]:
        seen.append(f"in {model.name}")
        yield
        seen.append("out")

    ends = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(f"epoch {epoch}"))
    model, _ = fit(hparams(), extensions=[Extension(around=around, callbacks=[ends])])
    assert seen == [f"in {model.name}", "epoch 0", "epoch 1", "out"]


def test_early_epochs_can_be_kept_from_being_the_best() -> None:
    _, report = fit(hparams(epochs=4, learning_rate=2.0), extensions=[Extension(best_from_epoch=4)])
    assert report.best_epoch == 4

"""Training on changed images: soft labels are learned from, and a broken training goes on exactly."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from modules.hparams.image import AugmentHparams
from modules.hparams.train import CheckpointHparams
from modules.image import augmentation
from modules.input_pipeline import TrainingStream
from modules.training import loop
from modules.training.checkpoints import CheckpointStore
from modules.training.session import prepare
from tests.modules.training import small

MIXED = AugmentHparams(crop=1, flip=True, rotation=10.0, erase=0.5, mixup=0.3, cutmix=1.0)
EXAMPLES, BATCH = 40, 8


class Broken(RuntimeError):
    """What stops a training in the middle."""


class BreakAt(keras.callbacks.Callback):
    def __init__(self, calls: int) -> None:
        super().__init__()
        self._left = calls

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._left -= 1
        if not self._left:
            raise Broken


def pairs() -> tf.data.Dataset:
    images, labels = small.data(EXAMPLES)
    shown = np.clip(images * 40 + 100, 0, 255)
    return tf.data.Dataset.from_tensor_slices((shown, tf.one_hot(labels, small.CLASSES)))


def noisy(image: tf.Tensor, label: tf.Tensor, *, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.clip_by_value(image + tf.random.stateless_normal(image.shape, seed), 0.0, 255.0), label


def train(store: CheckpointStore | None, callbacks: list[Any], every_steps: int = 3) -> list[np.ndarray]:
    """Weights after two epochs of five steps."""
    told = small.hparams(
        batch_size=BATCH,
        learning_rate=0.001,
        steps_per_call=1,
        checkpoint=CheckpointHparams(every_steps=every_steps, every_minutes=0.0),
        label_smoothing=0.1,
    )
    session = prepare(told)
    keras.utils.set_random_seed(5)
    model = small.model()
    stream = TrainingStream(
        pairs(), EXAMPLES, BATCH, seed=3, augment=augmentation.of_batches(MIXED), each=noisy
    )
    loop.fit(
        model, stream, pairs().batch(BATCH), session, store=store, callbacks=callbacks, echo=lambda line: None
    )
    return small.weights(model)


def test_a_broken_training_sees_the_same_images_when_it_goes_on(tmp_path) -> None:
    whole = train(None, [])
    store = CheckpointStore(str(tmp_path), identity={"model": "small"})
    with pytest.raises(Broken):
        train(store, [BreakAt(5)])
    store.wait()
    again = CheckpointStore(str(tmp_path), identity={"model": "small"})
    found = again.latest()
    assert found is not None and found.step == 3
    assert small.difference(train(again, []), whole) == 0.0


def test_the_losses_take_soft_labels() -> None:
    from modules.training import losses

    soft = tf.constant([[0.7, 0.3, 0.0]])
    predictions = tf.constant([[0.5, 0.25, 0.25]])
    loss = losses.build(small.hparams(label_smoothing=0.0), None)
    np.testing.assert_allclose(
        loss(soft, predictions), [-(0.7 * np.log(0.5) + 0.3 * np.log(0.25))], rtol=1e-5
    )
    weighted = losses.build(small.hparams(label_smoothing=0.0), (1.0, 3.0, 9.0))
    np.testing.assert_allclose(weighted(soft, predictions), 1.6 * loss(soft, predictions), rtol=1e-5)

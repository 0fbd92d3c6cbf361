"""The augmentation that an experiment asks for."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from modules.hparams.image import AugmentHparams, ImageModelHparams
from modules.image import augment, augmentation
from pipelines.model_stages import Augment

IMAGES = tf.constant(np.random.default_rng(0).uniform(0, 255, (6, 12, 10, 3)).astype(np.float32))
LABELS = tf.one_hot([0, 1, 2, 0, 1, 2], 3)
SEED = tf.constant([3, 4], tf.int64)

ONE_EACH = [
    {"crop": 2}, {"flip": True}, {"rotation": 20.0}, {"zoom": 0.2}, {"shift": 0.2}, {"brightness": 0.4},
    {"contrast": 0.6}, {"saturation": 0.8}, {"rand_layers": 2}, {"erase": 1.0}, {"mixup": 0.4},
    {"cutmix": 1.0}, {"mixup": 0.4, "cutmix": 1.0},
]  # fmt: skip


def apply(seed: tf.Tensor = SEED, **settings: object):
    function = augmentation.of_batches(AugmentHparams(**settings))
    assert function is not None
    return function(IMAGES, LABELS, seed=seed)


def test_nothing_is_done_by_default_and_the_defaults_agree() -> None:
    assert augmentation.of_batches(AugmentHparams()) is None
    assert augmentation.of_batches(AugmentHparams(area=0.5)) is None
    assert AugmentHparams(**Augment().model_dump()) == AugmentHparams()
    told = ImageModelHparams.from_config(
        {"name": "x", "height": 8, "width": 8, "channels": 3, "filters": [4], "blocks_per_stage": 1,
         "dropout": 0.0, "augment": Augment(flip=True).model_dump()}
    )  # fmt: skip
    assert told.augment.flip and told.filters == (4,)


@pytest.mark.parametrize("settings", ONE_EACH, ids=lambda settings: "+".join(settings))
def test_every_setting_changes_images_from_the_seed_alone(settings: dict[str, object]) -> None:
    images, labels = apply(**settings)
    assert images.shape == IMAGES.shape
    assert float(tf.reduce_min(images)) >= 0 and float(tf.reduce_max(images)) <= 255.001
    assert np.abs(images.numpy() - IMAGES.numpy()).max() > 1
    np.testing.assert_allclose(tf.reduce_sum(labels, axis=1), 1.0, atol=1e-6)
    again = tf.function(lambda: apply(**settings))()
    np.testing.assert_allclose(again[0], images, atol=2e-3)
    # Of some seeds at least the result differs: a flip has but two outcomes.
    others = [apply(tf.constant([3, number], tf.int64), **settings)[0].numpy() for number in range(5, 9)]
    assert any(np.abs(other - images.numpy()).max() > 1 for other in others)


def test_labels_are_soft_where_images_are_mixed_and_only_there() -> None:
    assert np.any((apply(mixup=0.4)[1].numpy() > 0.01) & (apply(mixup=0.4)[1].numpy() < 0.99))
    np.testing.assert_array_equal(apply(flip=True, erase=1.0)[1], LABELS)


def test_both_mixes_take_turns() -> None:
    drawn = set()
    for number in range(8):
        seed = tf.constant([7, number], tf.int64)
        images = apply(seed, mixup=0.4, cutmix=1.0)[0].numpy()
        mixes = (
            augment.mixup(IMAGES, LABELS, seed, alpha=0.4),
            augment.cutmix(IMAGES, LABELS, seed, alpha=1),
        )
        drawn.add(next(index for index, mix in enumerate(mixes) if np.allclose(mix[0], images)))
    assert drawn == {0, 1}

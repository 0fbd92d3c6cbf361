"""Augmentation: shapes, ranges, seeds, and exact results where they can be told."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from modules.image import augment

SEED = tf.constant([3, 5], tf.int64)
IMAGES = tf.constant(np.random.default_rng(1).uniform(0, 255, (6, 9, 12, 3)), tf.float32)
LABELS = tf.one_hot([0, 1, 2, 0, 1, 2], 3)

OPERATIONS = {
    "geometry": lambda images, seed: augment.geometry(
        images, seed, flip=True, rotation=20.0, zoom=0.2, shift=0.1
    ),
    "random_crop": lambda images, seed: augment.random_crop(images, seed, padding=3),
    "brightness": lambda images, seed: augment.brightness(images, seed, amount=0.3),
    "contrast": lambda images, seed: augment.contrast(images, seed, amount=0.5),
    "saturation": lambda images, seed: augment.saturation(images, seed, amount=0.5),
    "erase": lambda images, seed: augment.erase(images, seed, probability=1.0),
    "rand_augment": lambda images, seed: augment.rand_augment(images, seed, layers=2, magnitude=0.7),
    "mixup": lambda images, seed: augment.mixup(images, LABELS, seed, alpha=0.4)[0],
    "cutmix": lambda images, seed: augment.cutmix(images, LABELS, seed, alpha=1.0)[0],
}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_shape_range_and_seed_in_eager_in_graph_and_in_tf_data(name: str) -> None:
    operation = OPERATIONS[name]
    eager = operation(IMAGES, SEED)
    assert eager.shape == IMAGES.shape and eager.dtype == tf.float32
    assert float(tf.reduce_min(eager)) >= 0 and float(tf.reduce_max(eager)) <= 255
    np.testing.assert_allclose(tf.function(operation)(IMAGES, SEED), eager, atol=1e-3)
    dataset = tf.data.Dataset.from_tensors(IMAGES).map(lambda images: operation(images, SEED))
    np.testing.assert_allclose(next(iter(dataset)), eager, atol=1e-3)
    other = operation(IMAGES, SEED + 1)
    assert float(tf.reduce_max(tf.abs(other - eager))) > 1.0


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"mixup", "cutmix"}))
@pytest.mark.parametrize("channels", [1, 4])
def test_other_numbers_of_channels(name: str, channels: int) -> None:
    images = tf.ones((2, 8, 8, channels)) * 100
    assert OPERATIONS[name](images, SEED).shape == images.shape


def test_nothing_asked_changes_nothing() -> None:
    np.testing.assert_allclose(augment.geometry(IMAGES, SEED), IMAGES, atol=1e-3)
    np.testing.assert_allclose(augment.random_crop(IMAGES, SEED, padding=0), IMAGES)
    np.testing.assert_allclose(augment.erase(IMAGES, SEED, probability=0.0), IMAGES)
    np.testing.assert_allclose(augment.brightness(IMAGES, SEED, amount=0.0), IMAGES)


def test_a_flip_is_exact_and_not_for_all() -> None:
    many = tf.repeat(IMAGES[:1], 40, axis=0)
    flipped = augment.geometry(many, SEED, flip=True)
    mirrored = [np.allclose(image, many[0, :, ::-1], atol=1e-3) for image in flipped]
    same = [np.allclose(image, many[0], atol=1e-3) for image in flipped]
    assert all(a != b for a, b in zip(mirrored, same, strict=True))
    assert 8 < sum(mirrored) < 32


def test_a_crop_shows_part_of_the_padded_image() -> None:
    cropped = augment.random_crop(IMAGES, SEED, padding=2).numpy()
    padded = np.pad(IMAGES.numpy(), ((0, 0), (2, 2), (2, 2), (0, 0)), mode="symmetric")
    for image, source in zip(cropped, padded, strict=True):
        windows = [source[top : top + 9, left : left + 12] for top in range(5) for left in range(5)]
        assert any(np.array_equal(image, window) for window in windows)


def test_brightness_adds_one_number_to_an_image() -> None:
    middle = tf.fill((4, 5, 5, 3), 128.0)
    changed = augment.brightness(middle, SEED, amount=0.2).numpy()
    assert all(np.ptp(image) < 1e-4 for image in changed)
    assert len({round(float(image[0, 0, 0]), 3) for image in changed}) == 4
    assert np.abs(changed - 128).max() <= 0.2 * 255


def test_contrast_keeps_the_mean_and_saturation_keeps_grey() -> None:
    soft = 128 + (IMAGES - 128) * 0.2
    means = tf.reduce_mean(augment.contrast(soft, SEED, amount=0.5), axis=(1, 2))
    np.testing.assert_allclose(means, tf.reduce_mean(soft, axis=(1, 2)), atol=1e-2)
    grey = tf.repeat(soft[..., :1], 3, axis=-1)
    np.testing.assert_allclose(augment.saturation(grey, SEED, amount=0.9), grey, atol=1e-2)


def test_erasing_fills_one_rectangle_with_the_mean() -> None:
    erased = augment.erase(IMAGES, SEED, probability=1.0, share=0.3).numpy()
    for image, before in zip(erased, IMAGES.numpy(), strict=True):
        changed = np.any(np.abs(image - before) > 1e-3, axis=-1)
        if changed.any():
            rows, columns = np.flatnonzero(changed.any(1)), np.flatnonzero(changed.any(0))
            assert changed[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].all()
            np.testing.assert_allclose(
                image[changed], np.broadcast_to(before.mean((0, 1)), image[changed].shape), rtol=1e-4
            )


@pytest.mark.parametrize("mix", [augment.mixup, augment.cutmix])
def test_mixed_labels_have_the_images_shares(mix) -> None:
    """White and black images: the mean of the result is the share of the white one's label."""
    images = tf.concat([tf.fill((4, 30, 30, 1), 255.0), tf.zeros((4, 30, 30, 1))], axis=0)
    labels = tf.one_hot([1] * 4 + [0] * 4, 2)
    mixed, shares = mix(images, labels, SEED, alpha=1.0)
    np.testing.assert_allclose(tf.reduce_mean(mixed, axis=(1, 2, 3)) / 255, shares[:, 1], atol=1e-4)
    np.testing.assert_allclose(tf.reduce_sum(shares, axis=1), 1.0, atol=1e-5)
    assert 0.01 < float(tf.reduce_mean(shares[:4, 0])) < 0.99

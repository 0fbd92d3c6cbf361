"""Random changes of training images, on whole batches, as tf.data-compatible ops.

    changed = geometry(images, seed, flip=True, rotation=15.0, zoom=0.1, shift=0.1)
    images, labels = mixup(images, labels, seed, alpha=0.2)

Everything takes images (B, H, W, C) float32 in [0, 255] and returns the same
shape and range; labels are (B, K) float32, rows summing to 1. Randomness comes
from `seed` alone, a (2,) integer tensor, so that a batch can be made again.
Every image draws its own parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

_GREY_WEIGHTS = (0.299, 0.587, 0.114)


def _uniform(images: tf.Tensor, seed: tf.Tensor, low: float, high: float, salt: int) -> tf.Tensor:
    """(B,) floats in [low, high), another stream for each salt."""
    own = tf.random.experimental.stateless_fold_in(seed, salt)
    return tf.random.stateless_uniform(tf.shape(images)[:1], own, low, high)


def _per_image(values: tf.Tensor) -> tf.Tensor:
    return values[:, tf.newaxis, tf.newaxis, tf.newaxis]


def geometry(
    images: tf.Tensor,
    seed: tf.Tensor,
    *,
    flip: bool = False,
    rotation: float = 0.0,
    zoom: float = 0.0,
    shift: float = 0.0,
) -> tf.Tensor:
    """Flips, turns, zooms and shifts in one resampling, edges reflected.

    Args:
        images: (B, H, W, C) float32.
        seed: (2,) integers.
        flip: left-right with probability one half.
        rotation: up to so many degrees either way.
        zoom: up to this share in or out.
        shift: up to this share of height and width.
    """
    shape = tf.shape(images)
    height, width = tf.cast(shape[1], tf.float32), tf.cast(shape[2], tf.float32)
    angle = _uniform(images, seed, -rotation, rotation, 1) * (math.pi / 180) if rotation else _zeros(images)
    scale = 1 + _uniform(images, seed, -zoom, zoom, 2) if zoom else _zeros(images) + 1
    mirror = 1 - 2 * tf.round(_uniform(images, seed, 0.0, 1.0, 3)) if flip else _zeros(images) + 1
    down = _uniform(images, seed, -shift, shift, 4) * height if shift else _zeros(images)
    right = _uniform(images, seed, -shift, shift, 5) * width if shift else _zeros(images)
    # From output to input pixels, around the centre: mirror, scale, turn, shift.
    a, b = mirror * scale * tf.cos(angle), -scale * tf.sin(angle)
    c, d = mirror * scale * tf.sin(angle), scale * tf.cos(angle)
    x, y = (width - 1) / 2, (height - 1) / 2
    zeros = tf.zeros_like(a)
    transforms = tf.stack(
        [a, b, x - a * x - b * y + right, c, d, y - c * x - d * y + down, zeros, zeros], axis=1
    )
    moved = tf.raw_ops.ImageProjectiveTransformV3(
        images=images,
        transforms=transforms,
        output_shape=shape[1:3],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="REFLECT",
    )
    return tf.ensure_shape(moved, images.shape)


def _zeros(images: tf.Tensor) -> tf.Tensor:
    return tf.zeros(tf.shape(images)[:1])


def random_crop(images: tf.Tensor, seed: tf.Tensor, *, padding: int) -> tf.Tensor:
    """Pads by reflection and cuts out a window of the old size, one place for each image."""
    padded = tf.pad(images, [[0, 0], [padding, padding], [padding, padding], [0, 0]], mode="SYMMETRIC")
    size = 2 * padding + 1
    top = tf.cast(_uniform(images, seed, 0.0, float(size), 6), tf.int32)
    left = tf.cast(_uniform(images, seed, 0.0, float(size), 7), tf.int32)
    height, width = tf.shape(images)[1], tf.shape(images)[2]
    rows = top[:, tf.newaxis] + tf.range(height)
    columns = left[:, tf.newaxis] + tf.range(width)
    cropped = tf.gather(tf.gather(padded, rows, axis=1, batch_dims=1), columns, axis=2, batch_dims=1)
    return tf.ensure_shape(cropped, images.shape)


def brightness(images: tf.Tensor, seed: tf.Tensor, *, amount: float) -> tf.Tensor:
    """Adds up to `amount` (a share of the range) to all pixels of an image, either way."""
    return _clipped(images + 255 * _per_image(_uniform(images, seed, -amount, amount, 8)))


def contrast(images: tf.Tensor, seed: tf.Tensor, *, amount: float) -> tf.Tensor:
    """Stretches pixels around each image's mean by up to `amount`, either way."""
    factor = _per_image(_uniform(images, seed, 1 - amount, 1 + amount, 9))
    mean = tf.reduce_mean(images, axis=(1, 2), keepdims=True)
    return _clipped((images - mean) * factor + mean)


def saturation(images: tf.Tensor, seed: tf.Tensor, *, amount: float) -> tf.Tensor:
    """Mixes colours with grey, or away from it, by up to `amount`; other images than RGB stay."""
    if images.shape[-1] != 3:
        return images
    factor = _per_image(_uniform(images, seed, 1 - amount, 1 + amount, 10))
    grey = tf.reduce_sum(images * tf.constant(_GREY_WEIGHTS), axis=-1, keepdims=True)
    return _clipped((images - grey) * factor + grey)


def _clipped(images: tf.Tensor) -> tf.Tensor:
    return tf.clip_by_value(images, 0.0, 255.0)


def erase(images: tf.Tensor, seed: tf.Tensor, *, probability: float, share: float = 0.2) -> tf.Tensor:
    """Fills a rectangle with the image's mean (random erasing, Zhong et al., 2017, arXiv:1708.04896).

    Args:
        images: (B, H, W, C) float32.
        seed: (2,) integers.
        probability: that an image loses a rectangle.
        share: of the area that a rectangle covers at most.
    """
    area = _uniform(images, seed, 0.02, share, 11)
    chosen = _uniform(images, seed, 0.0, 1.0, 12) < probability
    inside = _rectangles(images, tf.random.experimental.stateless_fold_in(seed, 13), area)
    mask = inside & _per_image(chosen)
    return tf.where(mask, tf.reduce_mean(images, axis=(1, 2), keepdims=True), images)


def _rectangles(images: tf.Tensor, seed: tf.Tensor, area: tf.Tensor) -> tf.Tensor:
    """(B, H, W, 1) bool: a square of the given share of the area around a random centre."""
    side = tf.sqrt(area)[:, tf.newaxis]
    rows = tf.linspace(0.0, 1.0, tf.shape(images)[1])[tf.newaxis]
    columns = tf.linspace(0.0, 1.0, tf.shape(images)[2])[tf.newaxis]
    centre_row = _uniform(images, seed, 0.0, 1.0, 14)[:, tf.newaxis]
    centre_column = _uniform(images, seed, 0.0, 1.0, 15)[:, tf.newaxis]
    in_rows = tf.abs(rows - centre_row) <= side / 2
    in_columns = tf.abs(columns - centre_column) <= side / 2
    return (in_rows[:, :, tf.newaxis] & in_columns[:, tf.newaxis, :])[..., tf.newaxis]


def mixup(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, *, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mixes each image and label with those of another (Zhang et al., 2017, arXiv:1710.09412).

    Shares are drawn from Beta(alpha, alpha), one a pair.
    """
    share = _beta(images, seed, alpha)
    other_images, other_labels = images[::-1], labels[::-1]
    mixed = _per_image(share) * images + (1 - _per_image(share)) * other_images
    column = share[:, tf.newaxis]
    return mixed, column * labels + (1 - column) * other_labels


def cutmix(
    images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, *, alpha: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Pastes a square of another image (Yun et al., 2019, arXiv:1905.04899); labels by area.

    The area is drawn from Beta(alpha, alpha); what counts is the area that is inside.
    """
    inside = _rectangles(images, seed, 1 - _beta(images, seed, alpha))
    mixed = tf.where(inside, images[::-1], images)
    pasted = tf.reduce_mean(tf.cast(inside, tf.float32), axis=(1, 2))
    return mixed, (1 - pasted) * labels + pasted * labels[::-1]


def _beta(images: tf.Tensor, seed: tf.Tensor, alpha: float) -> tf.Tensor:
    """(B,) draws of Beta(alpha, alpha), as a ratio of two gammas."""
    shape = tf.shape(images)[:1]
    draws = [
        tf.random.stateless_gamma(shape, tf.random.experimental.stateless_fold_in(seed, salt), alpha)
        for salt in (16, 17)
    ]
    return draws[0] / tf.maximum(draws[0] + draws[1], 1e-12)


def rand_augment(images: tf.Tensor, seed: tf.Tensor, *, layers: int, magnitude: float) -> tf.Tensor:
    """`layers` operations for each image, drawn from those below (Cubuk et al., 2019, arXiv:1909.13719).

    Args:
        images: (B, H, W, C) float32.
        seed: (2,) integers.
        layers: operations one after another.
        magnitude: strength of all, in [0, 1].

    All operations are computed for the whole batch and one is kept per image:
    a branch per image would cost more than these cheap operations do.
    """
    for layer in range(layers):
        own = tf.random.experimental.stateless_fold_in(seed, 100 + layer)
        variants = tf.stack([operation(images, own, magnitude) for operation in _RAND_AUGMENT])
        choice = tf.cast(_uniform(images, own, 0.0, float(len(_RAND_AUGMENT)), 18), tf.int32)
        index = tf.stack([choice, tf.range(tf.shape(images)[0])], axis=1)
        images = tf.ensure_shape(tf.gather_nd(variants, index), images.shape)
    return images


def _equalised(images: tf.Tensor, seed: tf.Tensor, magnitude: float) -> tf.Tensor:
    """Stretches each image to the whole range."""
    low = tf.reduce_min(images, axis=(1, 2, 3), keepdims=True)
    high = tf.reduce_max(images, axis=(1, 2, 3), keepdims=True)
    return (images - low) * (255.0 / tf.maximum(high - low, 1.0))


def _solarised(images: tf.Tensor, seed: tf.Tensor, magnitude: float) -> tf.Tensor:
    """Inverts pixels above a limit that falls with the magnitude."""
    return tf.where(images >= 255.0 * (1 - magnitude * 0.5), 255.0 - images, images)


def _posterised(images: tf.Tensor, seed: tf.Tensor, magnitude: float) -> tf.Tensor:
    """Keeps only the upper bits: 8 at magnitude 0, 4 at 1."""
    step = 2.0 ** round(4 * magnitude)
    return tf.floor(images / step) * step


_RAND_AUGMENT: tuple[Callable[[tf.Tensor, tf.Tensor, float], tf.Tensor], ...] = (
    lambda images, seed, magnitude: images,
    lambda images, seed, magnitude: geometry(images, seed, rotation=30 * magnitude),
    lambda images, seed, magnitude: geometry(images, seed, shift=0.3 * magnitude),
    lambda images, seed, magnitude: geometry(images, seed, zoom=0.3 * magnitude),
    lambda images, seed, magnitude: brightness(images, seed, amount=0.5 * magnitude),
    lambda images, seed, magnitude: contrast(images, seed, amount=0.9 * magnitude),
    lambda images, seed, magnitude: saturation(images, seed, amount=0.9 * magnitude),
    _equalised,
    _solarised,
    _posterised,
)

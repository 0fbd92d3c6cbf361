"""The augmentation of an experiment: which operations, in which order, from which seed.

    augment = of_batches(hparams.model.augment)
    images, labels = augment(images, labels, seed=seed)

Everything here works on whole batches, in which every image draws its own
parameters: a fraction of the cost of one image at a time. What must come
before (a random part of an encoded picture) is `modules.image.decode.decode_part`.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from modules.hparams.image import AugmentHparams
from modules.image import augment
from modules.input_pipeline import Augment

ImagesFn = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
MixFn = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
_CHOICE_SALT = 200


def of_batches(hparams: AugmentHparams) -> Augment | None:
    """What is done to a batch, or None where nothing is.

    The function takes images (B, H, W, C) float32 in [0, 255], labels (B, K)
    float32 whose rows sum to 1, and `seed`, (2,) int64; it returns the same.
    """
    operations, mix = _operations(hparams), _mix(hparams)
    if not operations and mix is None:
        return None

    def apply(images: tf.Tensor, labels: tf.Tensor, *, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shape = images.shape
        for operation in operations:
            images = operation(images, seed)
        if mix is not None:
            images, labels = mix(images, labels, seed)
        return tf.ensure_shape(images, shape), labels

    return apply


def _operations(hparams: AugmentHparams) -> list[ImagesFn]:
    """In the order of the settings."""
    found: list[ImagesFn] = []
    if hparams.crop:
        found.append(lambda images, seed: augment.random_crop(images, seed, padding=hparams.crop))
    if hparams.flip or hparams.rotation or hparams.zoom or hparams.shift:
        found.append(
            lambda images, seed: augment.geometry(
                images,
                seed,
                flip=hparams.flip,
                rotation=hparams.rotation,
                zoom=hparams.zoom,
                shift=hparams.shift,
            )
        )
    for amount, operation in (
        (hparams.brightness, augment.brightness),
        (hparams.contrast, augment.contrast),
        (hparams.saturation, augment.saturation),
    ):
        if amount:
            found.append(_with_amount(operation, amount))
    if hparams.rand_layers:
        found.append(
            lambda images, seed: augment.rand_augment(
                images, seed, layers=hparams.rand_layers, magnitude=hparams.rand_magnitude
            )
        )
    if hparams.erase:
        found.append(
            lambda images, seed: augment.erase(
                images, seed, probability=hparams.erase, share=hparams.erase_area
            )
        )
    return found


def _with_amount(operation: Callable[..., tf.Tensor], amount: float) -> ImagesFn:
    return lambda images, seed: operation(images, seed, amount=amount)


def _mix(hparams: AugmentHparams) -> MixFn | None:
    """MixUp, CutMix, or one of both, drawn for each batch."""

    def mixup(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return augment.mixup(images, labels, seed, alpha=hparams.mixup)

    def cutmix(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return augment.cutmix(images, labels, seed, alpha=hparams.cutmix)

    def either(images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        own = tf.random.experimental.stateless_fold_in(seed, _CHOICE_SALT)
        first = tf.random.stateless_uniform([], own) < 0.5
        mixed: tuple[tf.Tensor, tf.Tensor] = tf.cond(
            first, lambda: mixup(images, labels, seed), lambda: cutmix(images, labels, seed)
        )
        return mixed

    if hparams.mixup and hparams.cutmix:
        return either
    return mixup if hparams.mixup else cutmix if hparams.cutmix else None

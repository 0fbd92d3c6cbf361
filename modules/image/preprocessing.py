"""Transform's part for images: the label vocabulary and per-channel statistics.

Image bytes pass through undecoded: decoding happens in tf.data and in the
serving graph, by `modules.image.decode`. Decoded floats would take three times
the disk and read slower than the images decode; decoded bytes of small
pictures read faster, but once only, as the trainer's cache holds what it has
decoded, and they would leave no whole picture to take random parts of.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from modules import contract
from modules.class_labels import class_ids
from modules.hparams.image import ImageInputHparams
from modules.image.decode import decode_image


def preprocessing_fn(inputs: dict[str, tf.Tensor], custom_config: dict[str, Any]) -> dict[str, tf.Tensor]:
    """Maps raw features to transformed ones.

    Args:
        inputs: the image feature and the label feature, each (B, 1) string.
        custom_config: the fields of `ImageInputHparams`.

    Returns:
        The image feature (B,) string, unchanged; the label feature (B,) int64,
        an index into the vocabulary `label`, -1 where a label was not seen in
        the training split; `image_mean` and `image_variance` (B, C) float32,
        the training split's per-channel moments of pixels in [0, 255].
    """
    hparams = ImageInputHparams(**custom_config)
    encoded = tf.reshape(inputs[hparams.image_feature], [-1])
    label = tf.reshape(inputs[hparams.label_feature], [-1])
    mean, variance = _channel_moments(encoded, hparams)
    rows = tf.shape(encoded)[0]
    return {
        hparams.image_feature: encoded,
        hparams.label_feature: class_ids(label),
        contract.IMAGE_MEAN: _constant_feature(mean, rows),
        contract.IMAGE_VARIANCE: _constant_feature(variance, rows),
    }


def _channel_moments(encoded: tf.Tensor, hparams: ImageInputHparams) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance of each channel over a full pass: two (C,) float32.

    All images have one size after decoding, so the mean of per-image means is
    the mean over pixels, and only C values per image go through the analyzer.
    """

    def moments(one: tf.Tensor) -> tf.Tensor:
        pixels = decode_image(one, height=hparams.height, width=hparams.width, channels=hparams.channels)
        return tf.stack([tf.reduce_mean(pixels, axis=(0, 1)), tf.reduce_mean(tf.square(pixels), axis=(0, 1))])

    # One image at a time: Transform's batches hold thousands, whose pixels
    # together would not fit in memory.
    per_image = tf.map_fn(
        moments, encoded, fn_output_signature=tf.TensorSpec((2, hparams.channels), tf.float32)
    )
    mean, mean_square = tf.unstack(tft.mean(per_image, reduce_instance_dims=False))
    return mean, tf.maximum(mean_square - tf.square(mean), 0.0)


def _constant_feature(value: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    return tf.tile(tf.expand_dims(value, 0), [rows, 1])

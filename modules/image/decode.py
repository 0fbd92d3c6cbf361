"""Encoded image bytes to float pixels: the one function that training and serving share.

pixels = decode_image(encoded, height=8, width=8, channels=1)
batch = decode_images(encoded_batch, height=8, width=8, channels=1)
"""

from __future__ import annotations

import tensorflow as tf


def decode_image(encoded: tf.Tensor, *, height: int, width: int, channels: int) -> tf.Tensor:
    """Decodes one JPEG, PNG, BMP or GIF (its first frame) and brings it to size.

    Args:
        encoded: () string.
        height: pixels of the result.
        width: pixels of the result.
        channels: 1 (grey), 3 (RGB) or 4 (RGBA); other images are converted.

    Returns:
        (height, width, channels) float32 in [0, 255].

    Raises:
        tf.errors.InvalidArgumentError: the bytes are no image.
    """
    pixels = tf.io.decode_image(encoded, channels=channels, expand_animations=False)
    pixels.set_shape((None, None, channels))
    # Antialiasing matters when photos shrink by more than two; at equal size
    # resizing is the identity.
    resized = tf.image.resize(pixels, (height, width), antialias=True)
    return tf.ensure_shape(tf.cast(resized, tf.float32), (height, width, channels))


def decode_images(encoded: tf.Tensor, *, height: int, width: int, channels: int) -> tf.Tensor:
    """Decodes a batch: (B,) string to (B, height, width, channels) float32 in [0, 255]."""
    return tf.map_fn(
        lambda one: decode_image(one, height=height, width=width, channels=channels),
        encoded,
        fn_output_signature=tf.TensorSpec((height, width, channels), tf.float32),
    )

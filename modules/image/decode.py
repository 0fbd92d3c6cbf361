"""Encoded image bytes to float pixels: the one function that training and serving share.

pixels = decode_image(encoded, height=8, width=8, channels=1)
batch = decode_images(encoded_batch, height=8, width=8, channels=1)
pixels = decode_part(encoded, seed, area=0.3, height=96, width=96, channels=3)     # training alone
"""

from __future__ import annotations

from functools import partial

import tensorflow as tf

_REDUCTIONS = (2, 4, 8)
"""By which the JPEG decoder can shrink a picture while it decodes."""

_ASPECTS = (3 / 4, 4 / 3)


def decode_image(encoded: tf.Tensor, *, height: int, width: int, channels: int) -> tf.Tensor:
    """Decodes one JPEG, PNG, BMP or GIF (its first frame) and brings it to size.

    Of a JPEG at least twice as large as the result only the lower frequencies
    are decoded (to a half, a quarter or an eighth of its size, but never to less
    than the result), which takes less than half of the time of decoding and
    shrinking the whole.

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
    if channels == 4:  # of which there are no JPEGs
        return _resized(_whole(encoded, channels), height, width)
    shrink = _shrink(encoded, height, width)
    decode = partial(_whole, encoded, channels)
    for ratio in _REDUCTIONS:
        # Nested conditions: Transform cannot take a switch of several cases.
        decode = partial(tf.cond, shrink >= ratio, partial(_reduced, encoded, channels, ratio), decode)
    return _resized(decode(), height, width)


def _whole(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    pixels = tf.io.decode_image(encoded, channels=channels, expand_animations=False)
    return tf.ensure_shape(pixels, (None, None, channels))


def _reduced(encoded: tf.Tensor, channels: int, ratio: int) -> tf.Tensor:
    return tf.io.decode_jpeg(encoded, channels=channels, ratio=ratio)


def _shrink(encoded: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """By how much a JPEG can shrink and still have the given size: () int32; 0 for other images."""
    size = tf.cond(
        tf.io.is_jpeg(encoded),
        lambda: tf.io.extract_jpeg_shape(encoded)[:2],
        lambda: tf.constant([0, 0]),
    )
    return tf.reduce_min(size // (height, width))


def _resized(pixels: tf.Tensor, height: int, width: int) -> tf.Tensor:
    """Brought to size; at equal size this is the identity.

    Antialiasing matters where an image shrinks to less than half, and costs as
    much as decoding.
    """
    size, channels = (height, width), pixels.shape[-1]
    resized = tf.cond(
        tf.reduce_all(tf.shape(pixels)[:2] <= (2 * height, 2 * width)),
        lambda: tf.cast(tf.image.resize(pixels, size), tf.float32),
        lambda: tf.cast(tf.image.resize(pixels, size, antialias=True), tf.float32),
    )
    return tf.ensure_shape(resized, (height, width, channels))


def decode_part(
    encoded: tf.Tensor, seed: tf.Tensor, *, area: float, height: int, width: int, channels: int
) -> tf.Tensor:
    """A random part of an image, brought to size (Szegedy et al., 2014, arXiv:1409.4842).

    Of a JPEG only the part is decoded.

    Args:
        encoded: () string.
        seed: (2,) integers.
        area: share of the image that the part has at least; sides are to each other as 3:4 to 4:3.
        height: pixels of the result.
        width: pixels of the result.
        channels: 1, 3 or 4.

    Returns:
        (height, width, channels) float32 in [0, 255].
    """

    def of_jpeg() -> tf.Tensor:
        window = _random_window(tf.io.extract_jpeg_shape(encoded), seed, area)
        return tf.io.decode_and_crop_jpeg(encoded, window, channels=channels)

    def of_others() -> tf.Tensor:
        pixels = _whole(encoded, channels)
        window = _random_window(tf.shape(pixels), seed, area)
        return tf.image.crop_to_bounding_box(pixels, window[0], window[1], window[2], window[3])

    # There are no JPEGs of four channels; the decoder would refuse to make one.
    pixels = of_others() if channels == 4 else tf.cond(tf.io.is_jpeg(encoded), of_jpeg, of_others)
    return _resized(pixels, height, width)


def _random_window(shape: tf.Tensor, seed: tf.Tensor, area: float) -> tf.Tensor:
    """Top, left, height and width in pixels: (4,) int32."""
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape,
        tf.zeros([1, 0, 4]),
        seed,
        min_object_covered=0.0,
        aspect_ratio_range=_ASPECTS,
        area_range=(area, 1.0),
        use_image_if_no_bounding_boxes=True,
    )
    return tf.concat([begin[:2], size[:2]], 0)


def decode_images(encoded: tf.Tensor, *, height: int, width: int, channels: int) -> tf.Tensor:
    """Decodes a batch: (B,) string to (B, height, width, channels) float32 in [0, 255]."""
    return tf.map_fn(
        lambda one: decode_image(one, height=height, width=width, channels=channels),
        encoded,
        fn_output_signature=tf.TensorSpec((height, width, channels), tf.float32),
    )

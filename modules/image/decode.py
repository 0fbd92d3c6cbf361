"""Encoded image bytes to float pixels: the one function that training and serving share.

pixels = decode_image(encoded, height=8, width=8, channels=1)
batch = decode_images(encoded_batch, height=8, width=8, channels=1)
pixels = decode_part(encoded, seed, area=0.3, height=96, width=96, channels=3)     # training alone
"""

from __future__ import annotations

from functools import partial

import tensorflow as tf

MAX_PIXELS = 100_000_000
"""What is served does not decode a larger image: a small file can hold a huge one."""

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
    if channels == 4:  # as which no JPEG can be decoded in part
        return _resized(_whole(encoded, channels), height, width)
    shrink = _shrink(encoded, height, width)
    decode = partial(_whole, encoded, channels)
    for ratio in _REDUCTIONS:
        # Nested conditions: Transform cannot take a switch of several cases.
        decode = partial(tf.cond, shrink >= ratio, partial(_reduced, encoded, channels, ratio), decode)
    return _resized(decode(), height, width)


def _whole(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    """All pixels of an image of any kind, uint8.

    TensorFlow makes no transparency of JPEGs and GIFs and no grey of GIFs and
    BMPs: these are decoded as RGB, and converted.
    """
    straight = partial(_decoded, encoded, channels)
    if channels == 3:
        return straight()
    kind = tf.strings.substr(encoded, 0, 2)
    lacking = tf.io.is_jpeg(encoded) if channels == 4 else tf.equal(kind, "BM")
    return tf.cond(
        tf.logical_or(lacking, tf.equal(kind, "GI")), partial(_from_colours, encoded, channels), straight
    )


def _decoded(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    pixels = tf.io.decode_image(encoded, channels=channels, expand_animations=False)
    return tf.ensure_shape(pixels, (None, None, channels))


def _from_colours(encoded: tf.Tensor, channels: int) -> tf.Tensor:
    colours = _decoded(encoded, 3)
    if channels == 1:
        return tf.image.rgb_to_grayscale(colours)
    opaque = tf.constant(255, tf.uint8)
    return tf.ensure_shape(
        tf.pad(colours, [[0, 0], [0, 0], [0, 1]], constant_values=opaque), (None, None, channels)
    )


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
    """Decodes a batch: (B,) string to (B, height, width, channels) float32 in [0, 255].

    Raises:
        tf.errors.InvalidArgumentError: one is no image, or larger than `MAX_PIXELS`.
    """
    return tf.map_fn(
        lambda one: decode_image(bounded(one), height=height, width=width, channels=channels),
        encoded,
        fn_output_signature=tf.TensorSpec((height, width, channels), tf.float32),
    )


def bounded(encoded: tf.Tensor) -> tf.Tensor:
    """The bytes of an image as they are, once its header says that it has at most `MAX_PIXELS`.

    Of a JPEG and a PNG; of a GIF the screen, in which a frame should lie.

    Args:
        encoded: () string.

    Raises:
        tf.errors.InvalidArgumentError: it has more.
    """
    pixels = tf.cond(
        tf.io.is_jpeg(encoded), partial(_pixels_of_jpeg, encoded), partial(_pixels_of_others, encoded)
    )
    message = f"An image has more than {MAX_PIXELS} pixels:"
    with tf.control_dependencies([tf.debugging.Assert(pixels <= MAX_PIXELS, [message, pixels])]):
        return tf.identity(encoded)


def _pixels_of_jpeg(encoded: tf.Tensor) -> tf.Tensor:
    shape = tf.cast(tf.io.extract_jpeg_shape(encoded), tf.int64)
    return shape[0] * shape[1]


def _pixels_of_others(encoded: tf.Tensor) -> tf.Tensor:
    """From where PNG (as big-endian numbers of 4 bytes) and GIF (little-endian, of 2) have them."""
    head = tf.io.decode_raw(tf.strings.substr(encoded, 0, 24), tf.uint8, fixed_length=24)
    byte = tf.cast(head, tf.int64)
    is_png = tf.reduce_all(head[:4] == tf.constant([0x89, 0x50, 0x4E, 0x47], tf.uint8))
    is_gif = tf.reduce_all(head[:3] == tf.constant([0x47, 0x49, 0x46], tf.uint8))
    big = tf.constant([1 << 24, 1 << 16, 1 << 8, 1], tf.int64)
    png = tf.reduce_sum(byte[16:20] * big) * tf.reduce_sum(byte[20:24] * big)
    gif = (byte[6] + 256 * byte[7]) * (byte[8] + 256 * byte[9])
    return tf.where(is_png, png, tf.where(is_gif, gif, tf.zeros([], tf.int64)))

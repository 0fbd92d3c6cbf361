"""Decoding: what training and serving share, and random parts for training alone."""

from __future__ import annotations

import io
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from modules.image import decode
from tests import bombs


def jpeg(height: int, width: int, grey: bool = False) -> bytes:
    """A smooth picture, red growing to the right and green downwards."""
    rows, columns = np.mgrid[0:height, 0:width]
    pixels = np.stack([columns * 255 / width, rows * 255 / height, np.full_like(rows, 90)], -1)
    image = Image.fromarray(pixels.astype(np.uint8))
    buffer = io.BytesIO()
    (image.convert("L") if grey else image).save(buffer, format="JPEG", quality=95)
    return buffer.getvalue()


def whole(encoded: bytes, height: int, width: int, channels: int = 3) -> np.ndarray:
    """Every frequency decoded, then brought to size."""
    pixels = tf.io.decode_jpeg(encoded, channels=channels)
    return tf.image.resize(pixels, (height, width), antialias=True).numpy()


@pytest.mark.parametrize(
    ("size", "shrink"),
    [((63, 200), 1), ((64, 64), 2), ((127, 999), 3), ((128, 200), 4), ((256, 256), 8), ((1000, 900), 28)],
)
def test_only_what_is_needed_is_decoded(size: tuple[int, int], shrink: int) -> None:
    encoded = tf.constant(jpeg(*size))
    assert int(decode._shrink(encoded, 32, 32)) == shrink
    pixels = decode.decode_image(encoded, height=32, width=32, channels=3).numpy()
    # Levels of 255: what is left out is finer than what the result can show.
    assert np.abs(pixels - whole(encoded.numpy(), 32, 32)).mean() < 1.5


def test_fine_patterns_do_not_alias(png) -> None:
    """Lines of one pixel become grey, whichever decoder halves the image how often."""
    lines = np.zeros((256, 256, 3), np.uint8)
    lines[::2] = 255
    buffer = io.BytesIO()
    Image.fromarray(lines).save(buffer, format="JPEG", quality=95)
    for encoded in (buffer.getvalue(), png(lines)):
        for side in (32, 60, 120):
            pixels = decode.decode_image(tf.constant(encoded), height=side, width=side, channels=3).numpy()
            inner = pixels[2:-2, 2:-2]
            assert inner.min() > 100 and inner.max() < 156, (side, inner.min(), inner.max())


def test_grey_and_colour_go_into_each_other() -> None:
    colours = decode.decode_image(tf.constant(jpeg(200, 200, grey=True)), height=20, width=20, channels=3)
    assert np.ptp(colours.numpy(), axis=-1).max() == 0
    grey = decode.decode_image(tf.constant(jpeg(200, 200)), height=20, width=20, channels=1)
    assert grey.shape == (20, 20, 1)


def test_images_of_the_right_size_pass_unchanged(png) -> None:
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    decoded = decode.decode_image(tf.constant(png(pixels)), height=8, width=8, channels=1)
    np.testing.assert_array_equal(decoded.numpy()[..., 0], pixels)


def test_four_channels_come_from_png(png) -> None:
    decoded = decode.decode_image(tf.constant(png(np.zeros((9, 9, 3)))), height=4, width=4, channels=4)
    np.testing.assert_allclose(decoded.numpy()[..., 3], 255.0, atol=1e-3)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_kind_comes_in_every_number_of_channels(kind: str, channels: int) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 10, 10)).save(buffer, format=kind)
    encoded = tf.constant(buffer.getvalue())
    size = {"height": 8, "width": 8, "channels": channels}
    expected = {1: [66.5], 3: [200, 10, 10], 4: [200, 10, 10, 255]}[channels]
    decoded = decode.decode_images(encoded[tf.newaxis], **size)[0]
    for pixels in (decoded, decode.decode_part(encoded, (1, 2), area=0.5, **size)):
        np.testing.assert_allclose(pixels[4, 4], expected, atol=2.0)


def test_batches_are_decoded_alike_in_a_graph(png) -> None:
    encoded = [jpeg(300, 200), png(np.full((50, 40, 3), 7)), jpeg(16, 16)]

    @tf.function
    def batch(many: tf.Tensor) -> tf.Tensor:
        return decode.decode_images(many, height=16, width=16, channels=3)

    one = [decode.decode_image(tf.constant(item), height=16, width=16, channels=3) for item in encoded]
    np.testing.assert_array_equal(batch(tf.constant(encoded)), tf.stack(one))


@pytest.mark.parametrize("kind", ["jpeg", "png"])
def test_a_part_depends_on_its_seed_alone_and_lies_in_the_picture(png, kind: str) -> None:
    encoded = jpeg(120, 90) if kind == "jpeg" else png(np.array(Image.open(io.BytesIO(jpeg(120, 90)))))

    def part(seed: int, area: float) -> np.ndarray:
        return decode.decode_part(
            tf.constant(encoded), tf.constant([1, seed], tf.int64), area=area, height=24, width=24, channels=3
        ).numpy()

    parts = [part(seed, 0.25) for seed in range(8)]
    np.testing.assert_array_equal(part(3, 0.25), parts[3])
    assert len({item.tobytes() for item in parts}) == 8
    # Red spans the picture's width: a part of a quarter of the area spans half of it or so.
    spans = [np.ptp(item[..., 0].mean(axis=0)) for item in parts]
    assert min(spans) > 60 and max(spans) < 256
    dataset = tf.data.Dataset.from_tensors(encoded).map(
        lambda one: decode.decode_part(
            one, tf.constant([1, 3], tf.int64), area=0.25, height=24, width=24, channels=3
        )
    )
    np.testing.assert_array_equal(next(iter(dataset)), parts[3])


def test_the_same_part_of_a_jpeg_and_a_png_is_the_same(png) -> None:
    encoded = jpeg(80, 80)
    pixels = tf.io.decode_jpeg(encoded, channels=3).numpy()
    parts = [
        decode.decode_part(
            tf.constant(item), tf.constant([5, 9]), area=0.3, height=16, width=16, channels=3
        ).numpy()
        for item in (encoded, png(pixels))
    ]
    np.testing.assert_allclose(parts[0], parts[1], atol=6.0)


@pytest.mark.parametrize("kind", bombs.BOMBS)
def test_what_is_served_refuses_a_small_file_of_a_huge_image(kind: str) -> None:
    bomb = bombs.gif(8, 8, screen=60_000) if kind == "gif" else bombs.BOMBS[kind]
    batch = tf.constant([jpeg(8, 8), bomb])
    with pytest.raises(tf.errors.InvalidArgumentError, match="An image has more than 100000000 pixels"):
        decode.decode_images(batch, height=8, width=8, channels=3)
    graph = tf.function(partial(decode.decode_images, height=8, width=8, channels=3))
    with pytest.raises(tf.errors.InvalidArgumentError, match="An image has more than 100000000 pixels"):
        graph(batch)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP"])
def test_a_batch_is_its_images(kind: str) -> None:
    buffer = io.BytesIO()
    Image.open(io.BytesIO(jpeg(31, 47))).save(buffer, format=kind)
    size = {"height": 16, "width": 16, "channels": 3}
    one = decode.decode_image(tf.constant(buffer.getvalue()), **size)
    batch = decode.decode_images(tf.constant([buffer.getvalue()] * 2), **size)
    np.testing.assert_array_equal(batch.numpy(), np.stack([one, one]))

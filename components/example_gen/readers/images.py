"""Image files: bytes stored as they are, with what can be said of them as features.

Each Example holds `image` (the file's bytes), the label, `path` (relative to
the data's root), `width`, `height`, `format`.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf
from PIL import Image, UnidentifiedImageError

from components.example_gen.batch import Batch, Fault
from components.example_gen.request import IMAGE_PATH, Request, Source
from components.images import MAX_PIXELS

FORMATS = {"JPEG", "PNG", "GIF", "BMP", "WEBP"}


def read(source: Source, request: Request) -> Iterator[Batch]:
    """Reads one image file as record 0."""
    data = Path(source.path).read_bytes()
    try:
        width, height, name, encoded = inspect(data)
    except ValueError as error:
        yield Batch((), (Fault(0, str(error), data),), content=data)
        return
    features = {
        _image_feature(request): _bytes(encoded),
        request.label: _bytes(source.label.encode()),
        IMAGE_PATH: _bytes(os.path.relpath(source.path, request.options["root"]).encode()),
        "format": _bytes(name.encode()),
        "width": _ints(width),
        "height": _ints(height),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features))
    yield Batch(((0, example.SerializeToString(deterministic=True)),), content=data)


def inspect(data: bytes) -> tuple[int, int, str, bytes]:
    """Width and height in pixels, the format, and bytes that TensorFlow decodes.

    JPEG, PNG, GIF and BMP pass unchanged where TensorFlow decodes them; WebP,
    CMYK, 16-bit images and BMP with a palette are written anew as PNG of 8 bits. Of an animated
    image the first frame is what training and serving see.

    Raises:
        ValueError: it is no image, is cut off, or is too large; the message says which.
    """
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError(f"an image has {image.width} x {image.height} pixels; at most {MAX_PIXELS}")
            # A JPEG of several pictures, as some cameras write, begins with an ordinary one.
            name = "JPEG" if image.format == "MPO" else str(image.format)
            if name not in FORMATS:
                raise ValueError(f"an image is of the format {name}; known: {', '.join(sorted(FORMATS))}")
            image.load()
            foreign = name == "WEBP" or image.mode in ("CMYK", "I", "I;16", "I;16B", "F")
            # TensorFlow takes the numbers of a palette's colours for shades of grey.
            foreign |= name == "BMP" and image.mode == "P"
            encoded = _as_png(image) if foreign else data
            return image.width, image.height, name, _decodable(encoded, image)
    except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"a file is no image that decodes ({len(data)} bytes)") from error


def _as_png(image: Image.Image) -> bytes:
    if image.mode.startswith("I"):
        # 16-bit grey: the upper 8 bits.
        image = image.point(lambda value: value / 256).convert("L")
    buffer = io.BytesIO()
    keeps_alpha = image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info
    image.convert("RGBA" if keeps_alpha else "L" if image.mode == "L" else "RGB").save(buffer, format="PNG")
    return buffer.getvalue()


def _decodable(encoded: bytes, image: Image.Image) -> bytes:
    """The bytes themselves where TensorFlow decodes them, else a PNG of what Pillow read."""
    try:
        tf.io.decode_image(encoded, expand_animations=False)
    except tf.errors.InvalidArgumentError:
        return _as_png(image)
    return encoded


def _image_feature(request: Request) -> str:
    return next(rule.name for rule in request.features if rule.kind == "image")


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _ints(value: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

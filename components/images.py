"""How large an image is, before anything decodes it: a small file can hold a huge one.

    reason = fault(encoded, MAX_PIXELS)             # None for what may be decoded
    reason = fault_within(serialized, MAX_PIXELS)   # the same of the images in a tf.train.Example

Only headers are read. What does not begin as an image is none of this module's business.
"""

from __future__ import annotations

import io
import warnings

from PIL import Image, UnidentifiedImageError

MAX_PIXELS = 100_000_000
"""Three channels of this many are 300 MB."""

UNREADABLE = "an image whose size cannot be read"

_BEGINNINGS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"RIFF")
"""Of what decoders take and compression makes small; a BMP is as large as what it holds."""


def fault(encoded: bytes, limit: int) -> str | None:
    """Why something that begins as an image must not be decoded; None where it may be.

    What Pillow cannot open is refused too: another decoder might, and find it huge.
    """
    if not encoded.startswith(_BEGINNINGS):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(encoded)) as image:
                width, height = image.size
    except Image.DecompressionBombError:
        return f"an image has far more than {limit} pixels"
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError):
        return None if _is_text(encoded) else UNREADABLE
    return f"an image has {width} x {height} pixels; at most {limit}" if width * height > limit else None


def _is_text(value: bytes) -> bool:
    """A text may begin with GIF89a."""
    try:
        return value.decode().isprintable()
    except UnicodeDecodeError:
        return False


def fault_within(value: bytes, limit: int) -> str | None:
    """The same of an image, or of any image in the bytes features of a serialized tf.train.Example."""
    if value.startswith(_BEGINNINGS):
        return fault(value, limit)
    if not any(beginning in value for beginning in _BEGINNINGS):
        return None
    from google.protobuf.message import DecodeError
    from tensorflow.core.example import example_pb2

    try:
        example = example_pb2.Example.FromString(value)
    except DecodeError:
        return None
    for feature in example.features.feature.values():
        for item in feature.bytes_list.value:
            reason = fault(item, limit)
            if reason is not None:
                return reason
    return None

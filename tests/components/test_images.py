"""Images that are small files and decode to gigabytes are known by their headers."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from components import images
from components.example_gen import check
from components.example_gen.readers.images import inspect
from components.example_gen.request import FeatureRule
from components.images import MAX_PIXELS
from tests import bombs


def saved(kind: str, width: int = 20, height: int = 10) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height)).save(buffer, format=kind)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", bombs.BOMBS)
def test_bombs_are_refused(kind: str, make_example) -> None:
    bomb = bombs.BOMBS[kind]
    assert len(bomb) < 1200
    reason = images.fault(bomb, MAX_PIXELS)
    assert reason is not None and "pixels" in reason
    assert images.fault_within(bomb, MAX_PIXELS) == reason
    assert images.fault_within(make_example(id=7, picture=bomb), MAX_PIXELS) == reason
    with pytest.raises(ValueError, match=r"image|pixels"):
        inspect(bomb)
    rule = FeatureRule("picture", "image")
    assert check.fault(make_example(picture=bomb), (rule,)) == f"feature 'picture': {reason}"


def test_the_limit_counts_pixels() -> None:
    assert images.fault(bombs.png(100, 50), 5000) is None
    assert images.fault(bombs.png(100, 50), 4999) == "an image has 100 x 50 pixels; at most 4999"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_usual_images_pass(kind: str, make_example) -> None:
    data = saved(kind)
    assert images.fault(data, 200) is None
    assert images.fault_within(make_example(picture=data), 200) is None


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_usual_images_count_too(kind: str, make_example) -> None:
    assert images.fault(saved(kind), 199) == "an image has 20 x 10 pixels; at most 199"
    assert images.fault_within(make_example(picture=saved(kind)), 199) is not None


@pytest.mark.parametrize(
    "value", [b"", b"plain", b"GIF89a is an old format", b"RIFF, she said", b"\x0a\xff\xd8\xffnot an Example"]
)
def test_what_is_no_image_passes(value: bytes) -> None:
    assert images.fault_within(value, 1) is None


def test_what_another_decoder_might_open_is_refused() -> None:
    broken = bytearray(bombs.BOMBS["png"])
    broken[12:16] = b"IHDX"
    assert images.fault(bytes(broken), MAX_PIXELS) == "an image whose size cannot be read"

"""Image folders: layouts, links, and images that are not what they seem."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from components.errors import DataError
from components.example_gen.readers import images
from components.example_gen.request import FeatureRule, Request, Source, SplitPlan
from components.example_gen.sources import list_images


@pytest.fixture
def put(tmp_path, png):
    def go(*names: str) -> Path:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(50))
        return tmp_path

    return go


def listed(root: Path) -> list[tuple[str, str, str]]:
    sources, _ = list_images(root)
    return sorted((Path(source.path).name, source.split, source.label) for source in sources)


def test_class_folders(put) -> None:
    root = put("cat/1.png", "cat/2.PNG", "dog/deep/3.jpeg", "cat/.hidden.png", ".git/4.png")
    (root / "cat" / "notes.txt").write_text("x")
    (root / "readme.md").write_text("x")
    assert listed(root) == [("1.png", "", "cat"), ("2.PNG", "", "cat"), ("3.jpeg", "", "dog")]
    assert list_images(root)[1] == ["cat/notes.txt", "readme.md"]


def test_split_folders_by_their_usual_names(put) -> None:
    root = put("train/cat/1.png", "val/cat/2.png", "test/dog/3.png")
    assert listed(root) == [
        ("1.png", "train", "cat"),
        ("2.png", "validation", "cat"),
        ("3.png", "test", "dog"),
    ]


def test_a_class_that_is_called_like_a_split_is_a_class(put) -> None:
    assert listed(put("test/1.png", "dog/2.png")) == [("1.png", "", "test"), ("2.png", "", "dog")]


def test_classes_are_mixed_and_the_order_is_that_of_names_alone(put, tmp_path_factory) -> None:
    root = put(*(f"{label}/{number:03}.png" for label in ("cat", "dog") for number in range(100)))
    order = [(source.label, Path(source.path).name) for source in list_images(root)[0]]
    assert 30 < [label for label, _ in order[:100]].count("cat") < 70
    copy = tmp_path_factory.mktemp("copy") / "data"
    shutil.copytree(root, copy)
    assert [(source.label, Path(source.path).name) for source in list_images(copy)[0]] == order


def test_another_folder_beside_those_of_splits(put) -> None:
    with pytest.raises(DataError, match="Beside folders of splits lies another: extra"):
        list_images(put("train/cat/1.png", "test/cat/2.png", "extra/cat/3.png"))


def test_a_class_that_is_called_train_is_a_class_where_no_other_is_called_so(put) -> None:
    assert listed(put("train/1.png", "bus/2.png")) == [("1.png", "", "train"), ("2.png", "", "bus")]


def test_a_list_of_files(put) -> None:
    root = put("a/1.png", "2.png")
    path = root / "list.csv"
    path.write_text("\ufefffile,label,split\na/1.png,cat,train\n2.png,dog,val\n")
    assert listed(path) == [("1.png", "train", "cat"), ("2.png", "validation", "dog")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,label\na,b\n", "should have the columns file and label"),
        ("file,label\nnone.png,cat\n", "a listed image is not there|A listed image is not there"),
        ("file,label\n2.png,\n", "lacks file or label"),
        ("file,label\n../../etc/passwd,cat\n", "leads out of the data's folder"),
        ("file,label,split\n2.png,cat,holdout\n", "names the split 'holdout'"),
        ("file,label,split\n2.png,cat,train\n2.png,cat,\n", "names no split, though others do"),
    ],
)
def test_lists_that_are_wrong(put, text: str, message: str) -> None:
    path = put("2.png") / "list.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        list_images(path)


def test_a_list_in_another_encoding(put) -> None:
    path = put("2.png") / "list.csv"
    path.write_bytes("file,label\n2.png,chât\n".encode("latin-1"))
    with pytest.raises(DataError, match="no CSV in UTF-8"):
        list_images(path)


def test_links_out_of_the_folder_are_refused_and_inside_are_followed(put, tmp_path_factory) -> None:
    root = put("cat/1.png")
    (root / "cat" / "again.png").symlink_to(root / "cat" / "1.png")
    assert len(listed(root)) == 2
    outside = tmp_path_factory.mktemp("outside") / "x.png"
    outside.write_bytes(b"x")
    (root / "cat" / "out.png").symlink_to(outside)
    with pytest.raises(DataError, match="leads out of the data's folder"):
        list_images(root)


def test_a_folder_without_images(put, tmp_path) -> None:
    with pytest.raises(DataError, match="no images here"):
        list_images(tmp_path)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


NOISE = Image.fromarray(np.random.default_rng(2).integers(0, 256, (12, 20, 3), dtype=np.uint8))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP"])
def test_usual_formats_pass_byte_for_byte(kind: str) -> None:
    data = saved(NOISE, kind)
    assert images.inspect(data) == (20, 12, kind, data)


@pytest.mark.parametrize(
    "data",
    [
        saved(NOISE, "WEBP", lossless=True),
        saved(NOISE.convert("CMYK"), "JPEG"),
        saved(Image.fromarray(np.full((12, 20), 40_000, np.uint16)), "PNG"),
        saved(NOISE.convert("RGBA"), "WEBP", lossless=True),
        saved(NOISE.convert("P"), "BMP"),
    ],
    ids=["webp", "cmyk", "16-bit", "webp with alpha", "bmp with a palette"],
)
def test_what_tensorflow_does_not_read_as_it_is_becomes_an_8_bit_png(data: bytes) -> None:
    width, height, _, encoded = images.inspect(data)
    assert (width, height) == (20, 12)
    assert encoded[:4] == b"\x89PNG"
    pixels = tf.io.decode_image(encoded, expand_animations=False)
    assert pixels.dtype == tf.uint8 and pixels.shape[:2] == (12, 20)


def test_sixteen_bits_keep_their_brightness() -> None:
    data = saved(Image.fromarray(np.full((4, 4), 40_000, np.uint16)), "PNG")
    pixels = tf.io.decode_image(images.inspect(data)[3]).numpy()
    assert set(pixels.ravel()) == {40_000 // 256}


def test_colours_of_a_palette_are_kept() -> None:
    plain = Image.new("RGB", (4, 4), (200, 30, 60))
    pixels = tf.io.decode_image(images.inspect(saved(plain.convert("P"), "BMP"))[3]).numpy()
    # As near as the palette's own colours are.
    np.testing.assert_allclose(pixels[0, 0], np.asarray(plain.convert("P").convert("RGB"))[0, 0])


def test_a_jpeg_of_several_pictures_is_its_first() -> None:
    data = saved(NOISE, "MPO", save_all=True, append_images=[NOISE.rotate(180)])
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "MPO"
    assert images.inspect(data) == (20, 12, "JPEG", data)


def test_an_animation_is_its_first_frame() -> None:
    frames = [Image.new("RGB", (6, 6), color) for color in ("red", "blue")]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    encoded = images.inspect(data)[3]
    pixels = tf.io.decode_image(encoded, expand_animations=False).numpy()
    assert pixels.shape == (6, 6, 3)
    assert pixels[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize(
    "data",
    [b"", b"rubbish", saved(NOISE, "PNG")[:60], saved(NOISE, "JPEG")[:200]],
    ids=["empty", "rubbish", "cut png", "cut jpeg"],
)
def test_what_does_not_decode(data: bytes) -> None:
    with pytest.raises(ValueError, match="no image that decodes"):
        images.inspect(data)


def test_a_bomb_is_refused_before_it_is_decoded(monkeypatch) -> None:
    monkeypatch.setattr(images, "MAX_PIXELS", 100)
    with pytest.raises(ValueError, match="20 x 12 pixels; at most 100"):
        images.inspect(saved(NOISE, "PNG"))


def test_a_foreign_format_is_named() -> None:
    with pytest.raises(ValueError, match="format TIFF"):
        images.inspect(saved(NOISE, "TIFF"))


def test_features_of_an_image(put) -> None:
    root = put("cat/1.png")
    request = Request(
        sources=(),
        format="images",
        split=SplitPlan("hash", (("train", 1),)),
        features=(FeatureRule("photo", "image"), FeatureRule("kind", "string")),
        label="kind",
        options={"root": str(root)},
    )
    (batch,) = images.read(Source(str(root / "cat" / "1.png"), label="cat"), request)
    features = tf.train.Example.FromString(batch.records[0][1]).features.feature
    assert features["photo"].bytes_list.value[0] == (root / "cat" / "1.png").read_bytes()
    assert features["kind"].bytes_list.value[0] == b"cat"
    assert features["path"].bytes_list.value[0] == b"cat/1.png"
    assert (features["width"].int64_list.value[0], features["height"].int64_list.value[0]) == (8, 8)
    assert features["format"].bytes_list.value[0] == b"PNG"

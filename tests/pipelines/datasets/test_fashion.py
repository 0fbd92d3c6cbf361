"""Fashion-MNIST from files as the package has them: made ones, small."""

from __future__ import annotations

import gzip
import io
import struct
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets import fashion
from pipelines.errors import InputError

SIZES = {"train": ("train", 12), "test": ("t10k", 5)}


def idx(array: np.ndarray) -> bytes:
    header = struct.pack(f">{1 + array.ndim}I", {1: 2049, 3: 2051}[array.ndim], *array.shape)
    return gzip.compress(header + array.tobytes())


@pytest.fixture
def source(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(fashion, "SPLITS", SIZES)
    folder = tmp_path / "package"
    folder.mkdir()
    for prefix, count in SIZES.values():
        images = np.arange(count * 784).reshape(count, 28, 28).astype(np.uint8)
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(idx(images))
        labels = (np.arange(count) % 10).astype(np.uint8)
        (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    return folder


def test_every_picture_keeps_its_pixels_and_its_name(source: Path, tmp_path: Path) -> None:
    import tensorflow as tf
    from PIL import Image

    folder = fashion.write(tmp_path / "fashion", source)
    for split, (_, count) in SIZES.items():
        files = sorted(str(path) for path in (folder / split).glob("*.tfrecord"))
        found = {}
        for record in tf.data.TFRecordDataset(files).as_numpy_iterator():
            feature = tf.train.Example.FromString(record).features.feature
            pixels = np.asarray(Image.open(io.BytesIO(feature["image"].bytes_list.value[0])))
            found[int(pixels[0, 0])] = (pixels, feature["label"].bytes_list.value[0].decode())
        assert len(found) == count
        first = np.arange(784).reshape(28, 28).astype(np.uint8)
        np.testing.assert_array_equal(found[0][0], first)
        assert found[0][1] == "t-shirt" and found[784 % 256][1] == "trouser"


def test_it_is_written_once(source: Path, tmp_path: Path) -> None:
    folder = fashion.write(tmp_path / "fashion", source)
    assert fashion.write(tmp_path / "fashion", tmp_path / "nowhere") == folder


def test_missing_and_damaged_files_are_named(source: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not on this machine") as caught:
        fashion.write(tmp_path / "a", tmp_path / "nowhere")
    assert "apt-get install dataset-fashion-mnist" in caught.value.remedy
    file = source / "train-images-idx3-ubyte.gz"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="is damaged"):
        fashion.write(tmp_path / "b", source)
    file.write_bytes(idx(np.zeros((3, 28, 28), np.uint8)))
    with pytest.raises(InputError, match="not what it should be") as caught:
        fashion.write(tmp_path / "c", source)
    assert caught.value.place == str(file)
    assert not (tmp_path / "c").exists()

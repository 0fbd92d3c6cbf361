"""Which files are read, and their digest."""

from __future__ import annotations

import os

import pytest

from pipelines import inputs
from pipelines.config import Data
from pipelines.errors import InputError
from pipelines.workspace import Workspace


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace.open(tmp_path / "w", create=True)


@pytest.fixture
def folder(tmp_path):
    for name in ("b.tfrecord", "a.tfrecord", "notes.txt", "c.TFRECORD"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def test_a_folder_gives_its_files_sorted(folder, workspace) -> None:
    found = inputs.files_of(Data(path=str(folder)), workspace)
    assert [path.name for path in found] == ["a.tfrecord", "b.tfrecord", "c.TFRECORD"]


def test_a_glob_and_a_single_file_of_any_name(folder, workspace) -> None:
    assert len(inputs.files_of(Data(path=f"{folder}/*.tfrecord"), workspace)) == 2
    assert len(inputs.files_of(Data(path=f"{folder}/notes.txt"), workspace)) == 1


def test_what_is_not_there(folder, workspace) -> None:
    with pytest.raises(InputError, match="does not exist"):
        inputs.files_of(Data(path=f"{folder}/*.none"), workspace)


def test_the_digest_follows_contents_and_names_not_time(folder) -> None:
    files = [folder / "a.tfrecord", folder / "b.tfrecord"]
    before = inputs.digest(files)
    os.utime(files[0], (1, 1))
    assert inputs.digest(files) == before
    data = bytearray(files[0].read_bytes())
    data[0] ^= 1
    files[0].write_bytes(bytes(data))
    os.utime(files[0], (1, 1))
    assert inputs.digest(files) != before


def test_digits_are_written_once(workspace) -> None:
    found = inputs.files_of(Data(source="digits"), workspace)
    assert [path.name for path in found] == [f"digits-0000{shard}-of-00004.tfrecord" for shard in range(4)]
    stamps = [path.stat().st_mtime_ns for path in found]
    again = inputs.files_of(Data(source="digits"), workspace)
    assert [path.stat().st_mtime_ns for path in again] == stamps


def test_digits_are_the_scans(workspace) -> None:
    import tensorflow as tf
    from sklearn.datasets import load_digits

    files = [str(path) for path in inputs.files_of(Data(source="digits"), workspace)]
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)}
    first = next(tf.data.TFRecordDataset(files[0]).as_numpy_iterator())
    parsed = tf.io.parse_single_example(first, spec)
    pixels = tf.io.decode_png(parsed["image"]).numpy()[..., 0]
    expected = load_digits().images[0]
    assert (pixels == (expected * 255 / 16).round()).all()
    assert parsed["label"].numpy() == b"0"
    assert sum(1 for _ in tf.data.TFRecordDataset(files)) == 1797

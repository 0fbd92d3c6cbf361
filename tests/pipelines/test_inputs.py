"""Which files are read, how, and their digest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from pipelines import inputs
from pipelines.config import Experiment
from pipelines.data_stages import Data
from pipelines.errors import InputError


@pytest.fixture
def folder(tmp_path) -> Path:
    for name in ("b.tfrecord", "a.tfrecord", "notes.txt", "c.TFRECORD"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def names(resolved: inputs.Resolved) -> list[str]:
    return [Path(source.path).name for source in resolved.request.sources]


def test_a_folder_gives_its_files_sorted(folder, resolve) -> None:
    resolved = resolve(path=str(folder))
    assert names(resolved) == ["a.tfrecord", "b.tfrecord", "c.TFRECORD"]
    assert resolved.request.format == "tfrecord"
    assert resolved.request.split.by == "hash"


def test_files_that_are_named_so_are_splits(tmp_path, resolve) -> None:
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text("text,label\na,b\n")
    resolved = resolve(path=str(tmp_path))
    assert resolved.request.split.by == "folder"
    assert {Path(item.path).name: item.split for item in resolved.request.sources} == {
        "train.csv": "train",
        "test.csv": "test",
    }
    assert resolve(path=str(tmp_path), splits={"by": "hash"}).request.split.by == "hash"
    (tmp_path / "more.csv").write_text("text,label\nc,d\n")
    with pytest.raises(InputError, match=r"named as splits \(test.csv, train.csv\), and 'more.csv'"):
        resolve(path=str(tmp_path))
    anew = resolve(path=str(tmp_path), splits={"by": "hash"})
    assert {item.split for item in anew.request.sources} == {""}


def test_a_glob_and_a_single_file_of_any_name_when_the_format_is_named(folder, resolve) -> None:
    assert len(names(resolve(path=f"{folder}/*.tfrecord"))) == 2
    assert names(resolve(path=f"{folder}/notes.txt", format="tfrecord")) == ["notes.txt"]
    with pytest.raises(InputError, match="no files of a known format"):
        resolve(path=f"{folder}/notes.txt")


@pytest.mark.parametrize(
    ("name", "data_format"),
    [("a.csv", "csv"), ("a.tsv", "csv"), ("a.parquet", "parquet"), ("a.avro", "avro"), ("a.jsonl", "jsonl")],
)
def test_formats_are_told_by_endings(tmp_path, resolve, name: str, data_format: str) -> None:
    (tmp_path / name).touch()
    request = resolve(path=str(tmp_path / name)).request
    assert request.format == data_format
    assert request.options["delimiter"] == ("\t" if name.endswith("tsv") else ",")


def test_several_formats_in_one_folder_must_be_told_apart(tmp_path, resolve) -> None:
    (tmp_path / "a.csv").touch()
    (tmp_path / "a.avro").touch()
    with pytest.raises(InputError, match=r"several formats \(avro, csv\)"):
        resolve(path=str(tmp_path))
    assert names(resolve(path=str(tmp_path), format="csv")) == ["a.csv"]


def test_image_folders_are_told_by_their_folders(tmp_path, resolve, png) -> None:
    root = tmp_path / "photos"
    for name in ("train/cat/1.png", "test/cat/2.png"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(png())
    request = resolve(path=str(root)).request
    assert (request.format, request.split.by, request.sources) == ("images", "folder", ())
    assert request.options["root"] == str(root)


def test_windows_of_spans_hold_the_newest_for_test(tmp_path, resolve) -> None:
    for span in (1, 2, 3):
        (tmp_path / f"day{span}.csv").touch()
    resolved = resolve(path=f"{tmp_path}/day{{SPAN}}.csv", window=2)
    assert [source.span for source in resolved.request.sources] == [2, 3]
    assert resolved.request.split.test_span == 3
    assert resolve(path=f"{tmp_path}/day{{SPAN}}.csv").request.split.test_span == -1


def test_what_is_not_there_or_cannot_be_split(folder, resolve) -> None:
    with pytest.raises(InputError, match="does not exist"):
        resolve(path=f"{folder}/*.none")
    with pytest.raises(InputError, match="no folders train/"):
        resolve(path=str(folder), splits={"by": "folder"})
    with pytest.raises(InputError, match="needs the feature with the time"):
        resolve(path=str(folder), splits={"by": "time"})


def test_the_digest_follows_contents_and_names_not_time(folder) -> None:
    files = [str(folder / "a.tfrecord"), str(folder / "b.tfrecord")]
    before = inputs.digest(files)
    os.utime(files[0], (1, 1))
    assert inputs.digest(files) == before
    data = bytearray(Path(files[0]).read_bytes())
    data[0] ^= 1
    Path(files[0]).write_bytes(bytes(data))
    os.utime(files[0], (1, 1))
    assert inputs.digest(files) != before


def test_digits_are_written_once_and_are_the_scans(resolve) -> None:
    import tensorflow as tf
    from sklearn.datasets import load_digits

    files = [source.path for source in resolve(source="digits").request.sources]
    assert [Path(file).name for file in files] == [
        f"digits-0000{shard}-of-00004.tfrecord" for shard in range(4)
    ]
    stamps = [Path(file).stat().st_mtime_ns for file in files]
    resolve(source="digits")
    assert [Path(file).stat().st_mtime_ns for file in files] == stamps
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.string)}
    first = next(tf.data.TFRecordDataset(files[0]).as_numpy_iterator())
    parsed = tf.io.parse_single_example(first, spec)
    pixels = tf.io.decode_png(parsed["image"]).numpy()[..., 0]
    assert (pixels == (load_digits().images[0] * 255 / 16).round()).all()
    assert parsed["label"].numpy() == b"0"
    assert sum(1 for _ in tf.data.TFRecordDataset(files)) == 1797


def test_a_tsv_of_any_name_when_the_format_is_named(tmp_path, resolve) -> None:
    (tmp_path / "questions.txt").touch()
    request = resolve(path=str(tmp_path / "questions.txt"), format="tsv").request
    assert (request.format, request.options["delimiter"]) == ("csv", "\t")


def test_what_every_record_must_have_goes_by_family() -> None:
    data = Data(path="a.csv", text="question", text_pair="answer", label="kind")
    assert [(rule.name, rule.kind) for rule in inputs.RULES["text"](data)] == [
        ("question", "text"),
        ("answer", "text"),
        ("kind", "string"),
    ]
    assert [rule.name for rule in inputs.RULES["text"](Data(path="a.csv"))] == ["text", "label"]
    assert [(rule.name, rule.kind) for rule in inputs.RULES["tabular"](data)] == [("kind", "any")]


def test_encodings_that_do_not_exist_are_refused(resolve) -> None:
    with pytest.raises(ValidationError, match="is no encoding of texts"):
        resolve(path="a.csv", encoding="klingon")


@pytest.fixture
def photos(tmp_path) -> Path:
    for name in ("a/1/cat/1.png", "a/1/dog/2.png", "b/1/cat/3.png"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    return tmp_path


def test_several_folders_of_images_are_not_taken_for_the_first(photos, resolve) -> None:
    with pytest.raises(InputError, match="from one folder, or one list; the path names 2"):
        resolve(path=f"{photos}/[ab]", format="images")


def test_images_by_spans(photos, resolve) -> None:
    with pytest.raises(InputError, match="Images are not read by spans"):
        resolve(path=f"{photos}/a/{{SPAN}}", format="images")


def test_what_is_needed_cannot_be_left_out() -> None:
    for settings in ({"label": "x"}, {"splits": {"key": "x"}}):
        with pytest.raises(ValidationError, match=r"data\.exclude leaves out 'x'"):
            Data(path="a.csv", exclude=["x"], **settings)


def test_a_delimiter_is_one_character() -> None:
    with pytest.raises(ValidationError, match="one character"):
        Data(path="a.csv", delimiter="||")


def test_images_for_a_model_of_tables(photos, inputs_workspace) -> None:
    settings = {"name": "e", "data": {"path": f"{photos}/a/1"}, "model": {"family": "tabular"}}
    with pytest.raises(InputError, match=r"The data is images, and model\.family=tabular reads none"):
        inputs.resolve(Experiment.model_validate(settings), inputs_workspace)

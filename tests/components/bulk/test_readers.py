"""What bulk inference reads, and what it tells apart as bad."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.bulk import inputs
from components.bulk.readers import Batch, open_reader
from components.errors import DataError


def write(folder: Path, **files: bytes) -> Path:
    for name, contents in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents)
    return folder


def texts(path: Path, column: str = "", pair_column: str = "") -> list[Batch]:
    return list(open_reader("texts", column, pair_column)(path))


def test_files_are_found_by_their_endings(tmp_path) -> None:
    write(tmp_path, b__1_png=b"", a_JPG=b"", notes_txt=b"", _hidden_png=b"")
    found = inputs.find(tmp_path)
    assert found.kind == "images"
    assert [path.name for path in found.files] == ["a.JPG", "1.png"]
    assert found.ignored == ("notes.txt",)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.tfrecord", "examples"),
        ("a.tfrecord.gz", "examples"),
        ("data_tfrecord-00000-of-00001.gz", "examples"),
        ("a.csv", "texts"),
        ("a.csv.gz", None),
        ("a.txt", None),
        ("a", None),
    ],
)
def test_kinds(name: str, kind: str | None) -> None:
    assert inputs.kind_of(Path(name)) == kind


def test_nothing_and_mixtures_are_refused(tmp_path) -> None:
    with pytest.raises(DataError, match="one kind; found none"):
        inputs.find(tmp_path / "missing")
    with pytest.raises(DataError, match="found images, texts"):
        inputs.find(write(tmp_path, a_png=b"", b_csv=b""))


def test_texts_of_a_column(tmp_path) -> None:
    write(tmp_path, a_csv='id,text\n1,"a\nb"\n2,\u00e9\n'.encode(), b_tsv=b"q\nx y\n")
    assert texts(tmp_path / "a.csv") == [Batch(((0, b"a\nb"), (1, "\u00e9".encode())))]
    assert texts(tmp_path / "a.csv", "id") == [Batch(((0, b"1"), (1, b"2")))]
    assert texts(tmp_path / "b.tsv") == [Batch(((0, b"x y"),))]


def test_pairs_part_at_the_one_tab_that_is_no_texts_own(tmp_path) -> None:
    write(tmp_path, a_csv=b"text,answer,id\na,b,1\nc\td,e\tf,2\n,g,3\n")
    (batch,) = texts(tmp_path / "a.csv", pair_column="answer")
    assert [text for _, text in batch.items] == [b"a\tb", b"c d\te\tf", b"\tg"]
    with pytest.raises(DataError, match="There is no column 'reply'"):
        texts(tmp_path / "a.csv", pair_column="reply")


def test_rows_of_another_width_are_faults_and_batches_are_small(tmp_path) -> None:
    rows = [f"{number},t{number}" if number % 50 else "only" for number in range(130)]
    (tmp_path / "a.csv").write_text("\n".join(["id,text", *rows]))
    batches = texts(tmp_path / "a.csv")
    assert max(len(batch.items) for batch in batches) == 64
    faults = [fault for batch in batches for fault in batch.faults]
    assert [fault.number for fault in faults] == [0, 50, 100]
    assert faults[0].reason == "a row should have 2 cells; received 1"
    assert sum(len(batch.items) for batch in batches) == 127


def test_a_csv_that_breaks_keeps_what_was_read(tmp_path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"text\n" + b"good\n" * 70 + b"\xff\n")
    read = []
    with pytest.raises(DataError, match="A CSV file cannot be read"):
        for batch in open_reader("texts")(path):
            read.extend(batch.items)
    assert len(read) == 70
    path.write_bytes(b"id,body\n")
    with pytest.raises(DataError, match="There is no column 'text'"):
        texts(path)


def test_images_and_what_is_none(tmp_path, png) -> None:
    write(tmp_path, a_png=png(7), b_png=b"no image")
    (good,) = open_reader("images")(tmp_path / "a.png")
    assert good == Batch(((0, png(7)),))
    (bad,) = open_reader("images")(tmp_path / "b.png")
    assert bad.items == ()
    assert "no image that decodes" in bad.faults[0].reason


def test_examples_and_records_that_are_none(tmp_path, write_tfrecord, make_example) -> None:
    good = make_example(image=b"x")
    path = write_tfrecord(tmp_path / "a.tfrecord", [good, b"no example", good])
    (batch,) = open_reader("examples")(path)
    assert batch.items == ((0, good), (2, good))
    assert [fault.number for fault in batch.faults] == [1]

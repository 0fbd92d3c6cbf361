"""ExampleGen's Beam part, and what it makes of counts and bad records."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet

from components.errors import DataError
from components.example_gen import executor, ingest
from components.example_gen.executor import Outcome
from components.example_gen.request import FeatureRule, Request, Source, SplitPlan

SHARES = (("train", 6), ("validation", 2), ("test", 2))


def request(sources=(), **changes) -> Request:
    settings = {
        "sources": tuple(Source(str(path)) for path in sources),
        "format": "tfrecord",
        "split": SplitPlan("hash", SHARES),
        "features": (FeatureRule("image", "image"), FeatureRule("label", "string")),
        "label": "label",
    }
    return Request(**{**settings, **changes})


def test_a_request_survives_json() -> None:
    asked = request(["/a", "/b"], options={"delimiter": ";"}, on_bad_record="quarantine")
    assert Request.from_json(asked.to_json()) == asked


@pytest.fixture
def ingested(tmp_path):
    """Runs the Beam part; returns the outcome and the folder."""

    def go(asked: Request, name: str = "out"):
        import apache_beam as beam

        root = tmp_path / name
        (root / "report").mkdir(parents=True)
        (root / "quarantine").mkdir()
        plan = executor._plan(
            asked, asked.sources, str(root / "examples"), str(root / "report"), str(root / "quarantine")
        )
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            ingest.build(pipeline, plan, asked.sources)
        return executor.read_reports(str(root / "report")), root

    return go


@pytest.fixture
def two_files(tmp_path, write_tfrecord, make_example, png):
    return [
        write_tfrecord(
            tmp_path / f"in{file}.tfrecord",
            [make_example(image=png(file * 40 + number), label="ab"[number % 2]) for number in range(40)],
        )
        for file in range(2)
    ]


def test_output_bytes_do_not_depend_on_the_run(ingested, two_files) -> None:
    contents = []
    for run in range(2):
        outcome, root = ingested(request(two_files), f"out{run}")
        assert (outcome.good, outcome.bad) == (80, 0)
        files = sorted((root / "examples").rglob("*.gz"))
        contents.append({str(path.relative_to(root)): path.read_bytes() for path in files})
    assert contents[0] == contents[1]
    assert len(contents[0]) == 6


def test_large_outputs_are_continued_in_another_file(ingested, two_files, monkeypatch) -> None:
    import tensorflow as tf

    monkeypatch.setattr(ingest, "SHARD_BYTES", 1000)
    _, root = ingested(request(two_files[:1]))
    files = sorted(map(str, (root / "examples" / "Split-train").iterdir()))
    assert len(files) > 2
    counts = [sum(1 for _ in tf.data.TFRecordDataset(file, "GZIP")) for file in files]
    assert all(count > 1 for count in counts[:-1])


def test_bad_records_are_written_aside_with_their_reasons(ingested, two_files, write_tfrecord) -> None:
    from components.example_gen.readers.tfrecord import numbered_records

    records = [record for _, record in numbered_records(str(two_files[0]))]
    write_tfrecord(two_files[0], [*records[:5], b"rubbish", *records[5:]])
    data = two_files[1].read_bytes()
    two_files[1].write_bytes(data[:-7])
    asked = request(two_files, on_bad_record="quarantine", max_bad_fraction=0.1, damaged_files="keep")
    outcome, root = ingested(asked)
    assert (outcome.good, outcome.bad) == (79, 2)
    executor.check_bad(outcome, asked)
    rows = [
        json.loads(line)
        for path in sorted((root / "quarantine").iterdir())
        for line in path.read_text().splitlines()
    ]
    assert [(row["file"], row["record"]) for row in rows] == [(str(two_files[0]), 5), (str(two_files[1]), 39)]
    assert base64.b64decode(rows[0]["raw_base64"]) == b"rubbish"
    assert "no tf.train.Example" in rows[0]["reason"]
    assert "damaged" in rows[1]["reason"]


def test_a_file_that_was_cut_is_more_than_one_bad_record(ingested, two_files) -> None:
    data = two_files[1].read_bytes()
    two_files[1].write_bytes(data[: len(data) // 2 - 3])
    asked = request(two_files, on_bad_record="quarantine", max_bad_fraction=0.1)
    outcome, _ = ingested(asked)
    with pytest.raises(DataError, match=r"1 file\(s\) cannot be read to the end") as caught:
        executor.check_bad(outcome, asked)
    assert caught.value.place.startswith(f"{two_files[1]}, record ")
    assert "data.damaged_files=keep" in caught.value.remedy


def test_what_lies_behind_a_flipped_bit_is_estimated_by_bytes(ingested, two_files) -> None:
    data = bytearray(two_files[1].read_bytes())
    data[len(data) // 4] ^= 1
    two_files[1].write_bytes(data)
    asked = request(two_files, on_bad_record="quarantine", max_bad_fraction=0.3, damaged_files="keep")
    outcome, _ = ingested(asked)
    assert 48 <= outcome.good <= 51 and 28 <= outcome.bad <= 33
    with pytest.raises(DataError, match="Too many records cannot be used"):
        executor.check_bad(outcome, asked)


@pytest.mark.parametrize("format", ["csv", "parquet", "avro"])
def test_damaged_tables_are_put_aside_as_other_files_are(ingested, tmp_path, format: str) -> None:
    good, bad = tmp_path / f"a.{format}", tmp_path / f"b.{format}"
    _write_table(good, format)
    _write_table(bad, format)
    data = bad.read_bytes()
    bad.write_bytes(data + b'60,"never\nclosed' if format == "csv" else data[: len(data) // 2])
    rules = (FeatureRule("label", "string"),)
    asked = request([good, bad], format=format, features=rules, on_bad_record="quarantine")
    outcome, root = ingested(asked)
    assert outcome.good >= 60 and outcome.damaged == 1
    assert outcome.first_damaged[1].startswith(str(bad))
    assert [path.name for path in (root / "quarantine").iterdir()] == ["group-000001.jsonl"]
    with pytest.raises(DataError, match="cannot be read to the end"):
        executor.check_bad(outcome, asked)
    with pytest.raises(DataError):  # where nothing is put aside, it ends before anything is written
        ingested(request([good, bad], format=format, features=rules), "failing")


def _write_table(path: Path, format: str) -> None:
    rows = [{"size": number, "label": "ab"[number % 2]} for number in range(60)]
    if format == "csv":
        path.write_text("size,label\n" + "".join(f"{row['size']},{row['label']}\n" for row in rows))
    elif format == "parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        fields = [{"name": "size", "type": "long"}, {"name": "label", "type": "string"}]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows)


def test_failing_names_the_first_bad_record_in_input_order(ingested, two_files, write_tfrecord) -> None:
    write_tfrecord(two_files[1], [b"rubbish"])
    write_tfrecord(two_files[0], [b"also", b"rubbish"])
    outcome, _ = ingested(request(two_files))
    with pytest.raises(DataError) as caught:
        executor.check_bad(outcome, request(two_files))
    assert caught.value.place == f"{two_files[0]}, record 0"
    assert "(3 bad records or files in all)" in caught.value.headline


def test_a_column_of_another_name_is_answered_with_the_settings_that_name_it(ingested, tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("body,topic\nhello,greeting\n")
    asked = request([path], format="csv", features=(FeatureRule("text", "text"),))
    outcome, _ = ingested(asked)
    with pytest.raises(DataError, match="column 'text' is missing; columns: body, topic") as caught:
        executor.check_bad(outcome, asked)
    assert "data.text" in caught.value.remedy


def test_a_split_by_time_of_bad_records_alone_says_what_is_wrong_with_them(ingested, tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("at,topic\n1,a\n2,b\n")
    plan = SplitPlan("time", SHARES, key="at")
    asked = request([path], format="csv", features=(FeatureRule("label", "any"),), split=plan)
    outcome, _ = ingested(asked)
    with pytest.raises(DataError, match="column 'label' is missing; columns: at, topic"):
        executor.check_bad(outcome, asked)


@pytest.mark.parametrize("by", ["hash", "time"])
def test_a_key_that_no_record_has_is_named_with_the_nearest(ingested, tmp_path, by: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user_id,label\n" + "".join(f"{number},{'ab'[number % 2]}\n" for number in range(9)))
    plan = SplitPlan(by, SHARES, key="userid")
    asked = request([path], format="csv", features=(FeatureRule("label", "any"),), split=plan)
    with pytest.raises(DataError, match="no feature 'userid' to split by") as caught:
        ingested(asked)
    assert caught.value.place == "data.splits.key"
    assert caught.value.remedy == "Did you mean 'user_id'? Features: label, user_id."


def test_a_key_that_only_later_records_have_is_one(ingested, tmp_path, write_tfrecord, make_example) -> None:
    first = write_tfrecord(tmp_path / "a.tfrecord", [make_example(label="a") for _ in range(3)])
    second = write_tfrecord(tmp_path / "b.tfrecord", [make_example(label="b", user="x") for _ in range(3)])
    plan = SplitPlan("hash", SHARES, key="user")
    outcome, _ = ingested(request([first, second], features=(FeatureRule("label", "string"),), split=plan))
    assert outcome.good == 6


def test_too_many_bad_records_fail_even_in_quarantine() -> None:
    outcome = Outcome({}, good=97, bad=3, first_bad=("headline", "place", "remedy"))
    executor.check_bad(outcome, request(on_bad_record="quarantine", max_bad_fraction=0.03))
    with pytest.raises(DataError) as caught:
        executor.check_bad(outcome, request(on_bad_record="quarantine", max_bad_fraction=0.02))
    assert caught.value.headline == (
        "Too many records cannot be used: 3 of 100, over 2.00%; the first: headline"
    )


GOOD = {name: {"a": 1, "b": 1} for name, _ in SHARES}


def test_sound_counts_pass() -> None:
    executor.check_counts(GOOD, request(), [Source("/a")])


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({**GOOD, "test": {}}, "The split 'test' came out empty: 4 examples"),
        ({name: {"a": 1} for name in GOOD}, "There is a single class, 'a'"),
        (
            {**GOOD, "test": {"a": 1, "z": 2}},
            "The class 'z' has no training example \\(2 in the other splits\\)",
        ),
    ],
)
def test_splits_and_classes_that_are_missing(counts, message: str) -> None:
    with pytest.raises(DataError, match=message):
        executor.check_counts(counts, request(), [Source("/a")])


def test_a_number_to_predict_has_no_classes() -> None:
    executor.check_counts({name: {"1.5": 1} for name in GOOD}, request(classes=False), [Source("/a")])


def test_images_are_grouped_other_files_are_not() -> None:
    sources = [Source(f"/{number}") for number in range(600)]
    assert [len(group) for _, group in ingest.groups(sources, request(format="images"))] == [256, 256, 88]
    assert len(ingest.groups(sources, request())) == 600

"""What ExampleGen makes of counts and bad records."""

from __future__ import annotations

import pytest

from components.errors import DataError
from components.example_gen import executor, ingest
from components.example_gen.request import FeatureRule, Request

REQUEST = Request(
    files=("/data/a", "/data/b"),
    format="tfrecord",
    splits=(("train", 6), ("validation", 2), ("test", 2)),
    features=(FeatureRule("image", "image"), FeatureRule("label", "string")),
    label="label",
)


def test_a_request_survives_json() -> None:
    assert Request.from_json(REQUEST.to_json()) == REQUEST


def test_the_first_bad_record_in_input_order_is_named() -> None:
    bad = [
        {"position": [1, 3], "headline": "later", "place": "b, record 3", "remedy": "r"},
        {"position": [0, 10], "headline": "second", "place": "a, record 10", "remedy": "r"},
        {"position": [0, 9], "headline": "first", "place": "a, record 9", "remedy": "r"},
    ]
    with pytest.raises(DataError) as caught:
        executor.raise_on_bad_records(bad)
    assert caught.value.headline == "first (3 bad records or files in all)"
    assert caught.value.place == "a, record 9"


def test_counts_are_nested_and_sorted() -> None:
    rows = [["train", "b", 2], ["test", "a", 1], ["train", "a", 3]]
    assert executor.nested_counts(rows) == {"test": {"a": 1}, "train": {"a": 3, "b": 2}}


def test_sound_counts_pass() -> None:
    executor.check_counts({name: {"a": 1, "b": 1} for name in ("train", "validation", "test")}, REQUEST)


def test_an_empty_split_is_named() -> None:
    with pytest.raises(DataError, match="The split 'test' came out empty: 2 examples"):
        executor.check_counts({"train": {"a": 1}, "validation": {"b": 1}}, REQUEST)


@pytest.mark.parametrize(("total", "shards"), [(0, 1), (1, 1), (64 << 20, 1), ((64 << 20) + 1, 2)])
def test_shards_follow_the_size(total: int, shards: int) -> None:
    assert ingest.shard_count(total) == shards


def test_output_bytes_do_not_depend_on_the_run(tmp_path, write_tfrecord, make_example, png) -> None:
    """Two runs of the Beam part give the same files, in input order within each shard."""
    import apache_beam as beam

    paths = [
        write_tfrecord(
            tmp_path / f"in{file}.tfrecord",
            [make_example(image=png(file * 40 + number), label="ab"[number % 2]) for number in range(40)],
        )
        for file in range(2)
    ]
    request = Request(tuple(map(str, paths)), REQUEST.format, REQUEST.splits, REQUEST.features, REQUEST.label)
    contents = []
    for run in range(2):
        root = tmp_path / f"out{run}"
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            ingest.build(pipeline, request, str(root), str(root / "report"), shards=2)
        files = sorted(root.rglob("Split-*/*.gz"))
        contents.append({str(path.relative_to(root)): path.read_bytes() for path in files})
        counts = executor.nested_counts(ingest.read_json_lines(str(root / "report" / "counts"), limit=None))
        assert sum(sum(labels.values()) for labels in counts.values()) == 80
    assert contents[0] == contents[1]
    assert len(contents[0]) == 6

"""Which records of a split stand for all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.serving import examples
from components.serving.spread import spread


@pytest.fixture
def uri(tmp_path, make_example, write_tfrecord) -> Path:
    """Thirty records in five files, sorted by class as a folder of images is."""
    for shard in range(5):
        made = [make_example(label="abcde"[shard]) for _ in range(6)]
        write_tfrecord(tmp_path / "Split-validation" / f"data-{shard}.gz", made, "GZIP")
    return tmp_path


@pytest.mark.parametrize(
    ("total", "count", "places"), [(10, 4, [0, 2, 5, 7]), (3, 5, [0, 1, 2]), (0, 5, []), (4, 1, [0])]
)
def test_places_are_evenly_apart(total: int, count: int, places: list[int]) -> None:
    assert spread(total, count) == places


def test_some_records_of_a_sorted_split_are_of_all_classes(uri) -> None:
    found, of = examples.read_spread(str(uri), "validation", 10)
    assert examples.labels_of(found, "label") == [*"aabbccddee"]
    assert of == 30
    assert found == examples.read_at(str(uri), "validation", spread(30, 10))


def test_some_files_stand_for_all(uri) -> None:
    found, of = examples.read_spread(str(uri), "validation", 4, max_files=2)
    assert (examples.labels_of(found, "label"), of) == ([*"aacc"], 12)


def test_all_records_where_there_are_no_more(uri) -> None:
    found, of = examples.read_spread(str(uri), "validation", 99)
    assert (found, of) == (examples.read_split(str(uri), "validation"), 30)

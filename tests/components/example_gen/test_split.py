"""Splits by hash, folder, time and span."""

from __future__ import annotations

import pytest

from components.errors import DataError
from components.example_gen.request import Source, SplitPlan
from components.example_gen.split import bucket_split, splitter, time_cuts

SHARES = (("train", 6), ("validation", 2), ("test", 2))
ANY = Source("/data/a")


def test_shares_are_kept() -> None:
    records = [f"record {number}".encode() for number in range(10_000)]
    found = [bucket_split(record, SHARES) for record in records]
    shares = {name: found.count(name) / len(found) for name, _ in SHARES}
    # Three standard deviations of a share of 0.6 over 10,000 are 0.015.
    assert abs(shares["train"] - 0.6) < 0.015
    assert abs(shares["validation"] - 0.2) < 0.015
    assert abs(shares["test"] - 0.2) < 0.015


def test_known_records_stay_where_they_are() -> None:
    """A change here would move examples between splits of every user."""
    assert [bucket_split(bytes([number]), SHARES) for number in range(8)] == KNOWN


KNOWN = ["train", "validation", "validation", "test", "train", "train", "test", "test"]


def test_records_with_one_key_never_cross(make_example) -> None:
    assign = splitter(SplitPlan("hash", SHARES, key="user"), frozenset({""}))
    found: dict[str, set[str]] = {}
    for number in range(300):
        user = f"user {number % 20}"
        found.setdefault(user, set()).add(assign(ANY, make_example(user=user, row=number)))
    assert all(len(splits) == 1 for splits in found.values())
    assert {split for splits in found.values() for split in splits} == {"train", "validation", "test"}


def test_folders_are_kept_and_the_missing_split_is_cut_from_train() -> None:
    assign = splitter(SplitPlan("folder", SHARES), frozenset({"train", "test"}))
    records = [f"{number}".encode() for number in range(2000)]
    assert {assign(Source("x", "test"), record) for record in records} == {"test"}
    from_train = [assign(Source("x", "train"), record) for record in records]
    assert set(from_train) == {"train", "validation"}
    assert abs(from_train.count("validation") / 2000 - 2 / 8) < 0.03


def test_three_folders_are_taken_as_they_are() -> None:
    assign = splitter(SplitPlan("folder", SHARES), frozenset({"train", "validation", "test"}))
    assert [assign(Source("x", name), b"r") for name, _ in SHARES] == [name for name, _ in SHARES]


def test_the_newest_span_is_held_for_test() -> None:
    assign = splitter(SplitPlan("hash", SHARES, test_span=7), frozenset({""}))
    records = [f"{number}".encode() for number in range(200)]
    assert {assign(Source("x", span=7), record) for record in records} == {"test"}
    assert {assign(Source("x", span=6), record) for record in records} == {"train", "validation"}


@pytest.mark.parametrize("texts", [False, True])
def test_time_goes_from_oldest_to_newest(make_example, texts: bool) -> None:
    from datetime import UTC, datetime

    def at(number: int) -> object:
        return datetime.fromtimestamp(number * 3600, UTC).isoformat() if texts else number * 3600

    records = [make_example(when=at(number), row=number) for number in range(100)]
    cuts = time_cuts([number * 3600.0 for number in range(100)], SHARES)
    assign = splitter(SplitPlan("time", SHARES, key="when"), frozenset({""}), cuts)
    found = [assign(ANY, record) for record in records]
    assert found == ["train"] * 60 + ["validation"] * 20 + ["test"] * 20


def test_times_that_hardly_differ_cannot_be_split() -> None:
    with pytest.raises(DataError, match="do not differ enough"):
        time_cuts([1.0] * 99 + [2.0], SHARES)

"""Splits by hash."""

from __future__ import annotations

from components.example_gen.split import split_of

SPLITS = (("train", 6), ("validation", 2), ("test", 2))


def test_the_same_record_is_always_in_the_same_split() -> None:
    assert {split_of(b"record", SPLITS) for _ in range(3)} == {split_of(b"record", SPLITS)}


def test_shares_are_kept() -> None:
    records = [f"record {number}".encode() for number in range(10_000)]
    found = [split_of(record, SPLITS) for record in records]
    shares = {name: found.count(name) / len(found) for name, _ in SPLITS}
    # Three standard deviations of a share of 0.6 over 10,000 are 0.015.
    assert abs(shares["train"] - 0.6) < 0.015
    assert abs(shares["validation"] - 0.2) < 0.015
    assert abs(shares["test"] - 0.2) < 0.015


def test_known_records_stay_where_they_are() -> None:
    """A change here would move examples between splits of every user."""
    found = [split_of(bytes([number]), SPLITS) for number in range(8)]
    assert found == KNOWN


KNOWN = ["train", "validation", "validation", "test", "train", "train", "test", "test"]

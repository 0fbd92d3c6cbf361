"""Counts of label and predicted class: the same from a batch as from single records."""

from __future__ import annotations

from collections import Counter

import numpy as np

from components.evaluator import confusion, predict

NAMES = ("a", "b")
SCORES = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.7, 0.3, 0.0], [0.4, 0.6, 0.0]], np.float32)
LABELS = ["a", "a", "new", "b"]


def test_a_batch_is_counted() -> None:
    codes = np.array([1, 1, 0, 2])
    counted = dict(confusion.of_batch(["new", "a", "b"], codes, SCORES, NAMES))
    assert counted == {("a", "a"): 1, ("a", "b"): 1, ("new", "a"): 1, ("b", "b"): 1}


def test_what_has_no_label_is_left_out() -> None:
    assert list(confusion.of_batch([], np.array([-1, -1]), SCORES[:2], NAMES)) == []
    assert list(confusion.of_batch(["a"], np.array([-1, 0]), SCORES[:2], NAMES)) == [(("a", "b"), 1)]


def test_records_say_the_same(make_example) -> None:
    records = [
        make_example(label=label, **{predict.CANDIDATE_SCORES: row.tolist()})
        for label, row in zip(LABELS, SCORES, strict=True)
    ]
    found: Counter[tuple[str, str]] = Counter()
    for record in records:
        pair, count = confusion.of_record(record, "label", NAMES)
        found[pair] += count
    assert found == dict(confusion.of_batch(["new", "a", "b"], np.array([1, 1, 0, 2]), SCORES, NAMES))

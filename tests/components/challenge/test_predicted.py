"""How predictions are distributed, and when two distributions lie too far apart."""

from __future__ import annotations

import numpy as np
import pytest

from components.challenge.predicted import Distribution, apart, of_log

RNG = np.random.default_rng(7)


def drawn(count: int, share: float, *, scores: tuple[float, float] = (8.0, 2.0)) -> Distribution:
    classes = np.where(np.random.default_rng(count).uniform(size=count) < share, "yes", "no").tolist()
    return Distribution.of(classes, np.random.default_rng(count + 1).beta(*scores, count).tolist())


def test_the_same_spread_is_not_apart() -> None:
    for count in (50, 500, 5_000):
        assert apart(drawn(count, 0.3), drawn(4_000, 0.3), 0.0) == []


def test_classes_that_come_more_often_are_named_with_both_shares() -> None:
    now = Distribution.of(["yes"] * 450 + ["no"] * 50, [0.9] * 500)
    expected = Distribution.of(["yes"] * 1_200 + ["no"] * 2_800, [0.9] * 4_000)
    assert apart(now, expected, 0.1) == [
        "predictions: 90.0% of the last 500 are 'yes', and 30.0% of the test split's; at most 0.1 (and 0.118 "
        "by chance) apart is allowed"
    ]


def test_scores_that_have_fallen_are_noticed_where_classes_are_the_same() -> None:
    (sentence,) = apart(drawn(500, 0.3, scores=(2.0, 8.0)), drawn(4_000, 0.3), 0.1)
    assert "scores of the last 500 have moved" in sentence


def test_a_class_that_the_test_split_never_had() -> None:
    now = Distribution.of(["new"] * 500, [0.9] * 500)
    expected = Distribution.of(["old"] * 500, [0.9] * 500)
    assert "100.0% of the last 500 are 'new', and 0.0%" in apart(now, expected, 0.1)[0]


def test_few_predictions_may_differ_by_chance() -> None:
    assert apart(drawn(60, 0.5), drawn(4_000, 0.3), 0.1) == []
    assert apart(Distribution.of([], []), drawn(4_000, 0.3), 0.0) == []


def test_numbers_of_a_regression() -> None:
    before = Distribution.of([], RNG.normal(10.0, 1.0, 2_000).tolist())
    assert apart(Distribution.of([], RNG.normal(10.0, 1.0, 500).tolist()), before, 0.1) == []
    (sentence,) = apart(Distribution.of([], RNG.normal(14.0, 1.0, 500).tolist()), before, 0.1)
    assert "predicted values of the last 500 have moved" in sentence


def test_of_log_reads_both_kinds() -> None:
    lines = [{"class": "a", "score": 0.5}, {"class": "b", "score": 0.7}, {"at": 1.0}]
    assert dict(of_log(lines).classes) == {"a": 1, "b": 1}
    assert of_log([{"value": 2.0}, {"value": 3.0}]).examples == 2


def test_what_is_written_is_read_again(tmp_path) -> None:
    found = drawn(200, 0.4)
    found.write(tmp_path / "test-3.json")
    assert Distribution.read(tmp_path / "test-3.json") == found
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match="no distribution"):
        Distribution.read(tmp_path / "bad.json")

"""Anomalies and shifts as sentences, and as a stop."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import tfx.components  # noqa: F401  (TFDV can be imported only after TFX)
from tensorflow_metadata.proto.v0 import anomalies_pb2

from components.data_gate import divergence, drift, gate
from components.data_gate.drift import Limits
from components.errors import AnomalyError

KIND = anomalies_pb2.AnomalyInfo.Type


def anomalies(**features: tuple[str, str]) -> anomalies_pb2.Anomalies:
    message = anomalies_pb2.Anomalies()
    for name, (kind, description) in features.items():
        message.anomaly_info[name].description = description
        message.anomaly_info[name].reason.add(type=KIND.Value(kind))
    return message


UNEXPECTED = ("ENUM_TYPE_UNEXPECTED_STRING_VALUES", "Unexpected value: z")
MISSING = ("FEATURE_TYPE_LOW_FRACTION_PRESENT", "Missing in 3 rows")


def test_no_findings_pass() -> None:
    gate.check(gate.sentences("train", anomalies(), gate.kinds()), "train", "")


def test_each_anomaly_is_a_sentence_with_split_and_feature() -> None:
    found = gate.sentences("test", anomalies(label=UNEXPECTED, age=MISSING), gate.kinds())
    assert found == ["test: feature 'age': Missing in 3 rows", "test: feature 'label': Unexpected value: z"]
    with pytest.raises(AnomalyError) as caught:
        gate.check(found, "test", "Do this.")
    assert "; ".join(found) in caught.value.headline
    assert caught.value.remedy == "Do this."


def test_only_the_kinds_that_are_named_count() -> None:
    both = anomalies(label=UNEXPECTED, age=MISSING)
    assert gate.sentences("t", both, ["feature_type_low_fraction_present"]) == [
        "t: feature 'age': Missing in 3 rows"
    ]
    assert gate.sentences("t", both, []) == []
    assert "enum_type_unexpected_string_values" in gate.kinds()


def test_unseen_texts_are_no_anomaly_of_free_text_but_other_kinds_are() -> None:
    found = gate.sentences("t", anomalies(text=UNEXPECTED, label=UNEXPECTED), gate.kinds(), ["text"])
    assert found == ["t: feature 'label': Unexpected value: z"]
    assert gate.sentences("t", anomalies(text=MISSING), gate.kinds(), ["text"]) == [
        "t: feature 'text': Missing in 3 rows"
    ]


def test_kinds_are_named_or_all() -> None:
    assert gate.chosen_kinds(["all"]) == gate.kinds()
    assert gate.chosen_kinds([]) == []
    with pytest.raises(AnomalyError, match="no kind of anomaly 'typo'"):
        gate.chosen_kinds(["typo"])


def test_a_flood_is_cut_and_counted_and_is_whole_in_the_log(capsys) -> None:
    findings = [f"finding {number}." for number in range(65)]
    with pytest.raises(AnomalyError, match=r"finding 49\.; and 15 more, in the node's log") as caught:
        gate.check(findings, "train", "")
    assert "finding 50." not in caught.value.headline
    assert capsys.readouterr().out.splitlines()[1:] == findings


def test_all_of_fifty_are_said(capsys) -> None:
    with pytest.raises(AnomalyError, match=r"finding 49 \[train\]$"):
        gate.check([f"finding {number}" for number in range(50)], "train", "")
    assert not capsys.readouterr().out


def test_a_column_of_lists_is_said_and_missing_values_are_none() -> None:
    from tensorflow_data_validation.statistics import stats_impl, stats_options

    columns = {
        "size": pa.array([[1.0], [1.0, 2.0, 3.0], None], pa.list_(pa.float32())),
        "kind": pa.array([["a"], ["b", "c"], ["d"]], pa.list_(pa.string())),
        "other": pa.array([["a"], ["b", "c"], ["d"]], pa.list_(pa.string())),
        "sound": pa.array([[1], [], [2]], pa.list_(pa.int64())),
    }
    batch = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    found = stats_impl.generate_statistics_in_memory(batch, stats_options.StatsOptions())
    assert gate.several_values("train", found, ["other"]) == [
        "train: feature 'kind': Expected one value in a row; up to 2 were seen",
        "train: feature 'size': Expected one value in a row; up to 3 were seen",
    ]


def test_missing_data_is_an_anomaly() -> None:
    assert gate.sentences("test", anomalies_pb2.Anomalies(data_missing=True), []) == [
        "test: the split holds no data"
    ]


@pytest.fixture
def statistics():
    """Statistics of 2,000 rows with a category and a number, moved by as much as is asked."""
    from tensorflow_data_validation.statistics import stats_impl, stats_options

    def make(share: float = 0.5, mean: float = 0.0, rows: int = 2000):
        rng = np.random.default_rng(4)
        kinds = [["a" if row < share * rows else "b"] for row in range(rows)]
        sizes = [[value] for value in rng.normal(mean, 1.0, rows)]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(kinds, pa.list_(pa.string())), pa.array(sizes, pa.list_(pa.float32()))],
            ["kind", "size"],
        )
        return stats_impl.generate_statistics_in_memory(batch, stats_options.StatsOptions())

    return make


@pytest.fixture
def schema(statistics):
    import tensorflow_data_validation as tfdv

    return tfdv.infer_schema(statistics())


@pytest.mark.parametrize("kind", ["drift", "skew"])
def test_the_largest_change_of_a_share_is_measured(statistics, schema, kind) -> None:
    found = drift.distances(statistics(0.8), statistics(0.5), schema, Limits(0.1, {}), kind)
    by_feature = {shift.feature: shift for shift in found}
    assert by_feature["kind"].value == pytest.approx(0.3, abs=1e-3)
    assert by_feature["kind"].too_far
    assert not by_feature["size"].too_far
    assert "feature 'kind' has moved by 0.300 (L-infinity)" in by_feature["kind"].sentence()


def test_numbers_are_compared_by_their_distribution(statistics, schema) -> None:
    found = drift.distances(statistics(mean=3.0), statistics(), schema, Limits(0.1, {}), "drift")
    assert [shift.feature for shift in found if shift.too_far] == ["size"]


def test_limits_of_single_features_and_none_by_default(statistics, schema) -> None:
    moved, before = statistics(0.8, 3.0), statistics()
    found = drift.distances(moved, before, schema, Limits(None, {"kind": 0.5}), "drift")
    assert [(shift.feature, shift.too_far) for shift in found] == [("kind", False)]


def test_few_examples_move_by_chance(statistics, schema) -> None:
    few, others = statistics(0.6, rows=20), statistics(0.5, rows=20)
    found = drift.distances(few, others, schema, Limits(0.05, {}), "drift")
    assert not any(shift.too_far for shift in found)
    assert divergence.chance(20, 20) > 0.8 > divergence.chance(2000, 2000) * 8


def test_equal_distributions_with_one_outlier_do_not_differ() -> None:
    """Bins of equal width would put everything but the outlier into one."""
    rng = np.random.default_rng(3)

    def buckets(values):
        edges = np.quantile(values, np.linspace(0, 1, 11))
        return [(low, high, len(values) / 10) for low, high in pairwise(edges)]

    ours, theirs = rng.exponential(3, 5000), np.append(rng.exponential(3, 5000), 1e6)
    assert divergence.jensen_shannon(buckets(ours), buckets(theirs)) < 0.15
    assert divergence.jensen_shannon(buckets(ours), buckets(ours + 100)) == pytest.approx(1.0)
    assert divergence.jensen_shannon(buckets(ours), buckets(ours)) == 0.0


def test_a_number_that_is_always_the_same_can_move() -> None:
    assert divergence.jensen_shannon([(1.0, 1.0, 5)], [(2.0, 2.0, 5)]) == pytest.approx(1.0)
    assert divergence.jensen_shannon([(1.0, 1.0, 5)], [(1.0, 1.0, 9)]) == 0.0

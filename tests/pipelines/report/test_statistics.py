"""The page of statistics: what it says, and that it says it of every split."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from pipelines.report import charts, statistics
from pipelines.report.charts import Bucket
from pipelines.report.features import features

EVIL = "<script>alert(1)</script>"


def write(folder: Path, split: str, examples: int, shift: float) -> None:
    parsed = statistics_pb2.DatasetFeatureStatisticsList()
    dataset = parsed.datasets.add(num_examples=examples)
    number = dataset.features.add(type=statistics_pb2.FeatureNameStatistics.FLOAT)
    number.path.step.append("fare")
    stats = number.num_stats
    stats.common_stats.num_non_missing = examples - 1
    stats.common_stats.max_num_values = 1
    stats.min, stats.max, stats.mean, stats.median = shift, shift + 10, shift + 5, shift + 4
    standard = stats.histograms.add(type=statistics_pb2.Histogram.STANDARD)
    quantiles = stats.histograms.add(type=statistics_pb2.Histogram.QUANTILES)
    for bucket in range(2):
        low, high = shift + 5 * bucket, shift + 5 * bucket + 5
        standard.buckets.add(low_value=low, high_value=high, sample_count=examples * (0.75, 0.25)[bucket])
        quantiles.buckets.add(low_value=low, high_value=high, sample_count=examples / 2)
    text = dataset.features.add(type=statistics_pb2.FeatureNameStatistics.STRING, name=EVIL)
    text.string_stats.common_stats.num_non_missing = examples
    text.string_stats.unique = 2
    text.string_stats.top_values.add(value=EVIL, frequency=examples * 0.6)
    text.string_stats.top_values.add(value=" ", frequency=examples * 0.4)
    image = dataset.features.add(type=statistics_pb2.FeatureNameStatistics.BYTES, name="image")
    image.bytes_stats.common_stats.num_non_missing = examples
    image.bytes_stats.avg_num_bytes = 1234.0
    empty = dataset.features.add(type=statistics_pb2.FeatureNameStatistics.INT, name="empty")
    empty.num_stats.common_stats.num_missing = examples
    (folder / f"Split-{split}").mkdir(parents=True)
    (folder / f"Split-{split}" / "FeatureStats.pb").write_bytes(parsed.SerializeToString())


@pytest.fixture
def found(tmp_path, full_view):
    folder = Path(full_view.output("StatisticsGen", "statistics").uri)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    for number, (split, examples) in enumerate((("test", 20), ("train", 100), ("validation", 40))):
        write(folder, split, examples, float(number))
    return features(full_view)


def test_every_feature_has_every_split_in_the_usual_order(found) -> None:
    assert [feature.name for feature in found] == [EVIL, "empty", "fare", "image"]
    assert [feature.kind for feature in found] == ["string", "int", "float", "bytes"]
    fare = found[2]
    assert list(fare.splits) == ["train", "validation", "test"]
    train = fare.splits["train"]
    assert (train.examples, train.missing) == (100, pytest.approx(0.01))
    assert train.values["median"] == "5" and train.values["greatest"] == "11"
    assert train.histogram == (Bucket(1, 6, 75), Bucket(6, 11, 25))
    assert train.quantiles == (1, 6, 11)
    assert found[0].splits["test"].top == ((EVIL, 12), (" ", 8))
    assert found[1].splits["test"].missing == 1.0
    image = found[3].splits["train"]
    assert image.values == {"bytes on average": "1,234", "bytes": "0 to 0"}
    assert image.figures == {"average_length": 1234.0}


def test_the_page_is_one_file_that_loads_nothing(found) -> None:
    text = statistics.page("taxi-1", found, made_at=0.0)
    assert EVIL not in text and "&lt;script&gt;alert(1)" in text
    assert "http://" not in text and "https://" not in text
    assert "Examples: 100 train, 40 validation, 20 test." in text
    assert "60.0%" in text and "<i>blank</i>" in text and "1,234" in text
    assert text.count("<polyline") == 3


def test_shares_of_a_histogram_sum_to_one_whatever_its_buckets() -> None:
    buckets = [Bucket(0, 3, 1), Bucket(3, 3.5, 2), Bucket(3.5, 10, 5)]
    shares = charts._shares(buckets, 0.0, 10.0)
    assert sum(shares) == pytest.approx(1)
    # Ten bins of 1: in the fourth lie the second bucket, and half of 1 of the 6.5 of the third.
    assert shares[3] == pytest.approx(2 / 8 + 5 / 8 * 0.5 / 6.5)
    assert charts._shares([Bucket(4, 4, 7)], 4 - 2.0, 4 + 2.0)[5] == pytest.approx(1)


def test_numbers_that_are_not_finite_have_no_chart() -> None:
    text = charts.histogram({"train": [Bucket(float("-inf"), float("inf"), 3)]}, title="Share")
    assert "no finite values" in text

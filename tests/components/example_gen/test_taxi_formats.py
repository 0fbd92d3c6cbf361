"""Taxi trips from CSV, Parquet, Avro and TFRecord: the same rows, so the same statistics.

TFX's own files: 10,000 rows as CSV, Parquet and Avro; the same and 5,000 more as TFRecord. Its
Parquet file was written by pandas from a column made text, so that it has `nan` for no company.
"""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
import tensorflow as tf

from components import beam_worker
from components.example_gen.readers import column_kinds, open_reader
from components.example_gen.request import FeatureRule, Request, Source, SplitPlan

TAXI = Path(find_spec("tfx").origin).parent / "components/testdata/external"
PLAN = SplitPlan("hash", (("train", 6), ("validation", 2), ("test", 2)))
MISSING = ("nan",)


def examples(data_format: str, *names: str, missing: tuple[str, ...] = ()) -> list[bytes]:
    """All rows as Examples whose features are in the order of their names, sorted."""
    sources = tuple(Source(str(TAXI / name)) for name in names)
    request = Request(
        sources,
        data_format,
        PLAN,
        (FeatureRule("tips", "float"),),
        "tips",
        classes=False,
        missing_values=missing,
    )
    read = open_reader(request, column_kinds(request))
    batches = [batch for source in sources for batch in read(source)]
    assert not any(batch.faults for batch in batches)
    found = [
        tf.train.Example.FromString(record).SerializeToString(deterministic=True)
        for batch in batches
        for _, record in batch.records
    ]
    return sorted(found)


def statistics(records: list[bytes]):
    """What StatisticsGen computes of these rows, feature by feature."""
    beam_worker.prepare()  # TFDV can be imported only behind TFX
    from tensorflow_data_validation.statistics import stats_impl
    from tensorflow_data_validation.statistics.stats_options import StatsOptions
    from tfx_bsl.coders import example_coder

    batch = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch(records)
    parsed = stats_impl.generate_statistics_in_memory(batch, StatsOptions())
    return {".".join(feature.path.step): feature for feature in parsed.datasets[0].features}


@pytest.fixture(scope="module")
def from_csv() -> list[bytes]:
    return examples("csv", "csv/data.csv")


@pytest.mark.parametrize(
    ("data_format", "name", "missing"),
    [("parquet", "parquet/data.parquet", MISSING), ("avro", "avro/data.avro", ())],
)
def test_columns_give_the_rows_of_the_csv(from_csv, data_format: str, name: str, missing) -> None:
    assert len(from_csv) == 10_000
    assert examples(data_format, name, missing=missing) == from_csv


def test_without_the_setting_parquet_has_a_company_called_nan(from_csv) -> None:
    assert examples("parquet", "parquet/data.parquet") != from_csv


def from_records() -> Counter[bytes]:
    names = sorted(f"tfrecord/{path.name}" for path in (TAXI / "tfrecord").glob("*.gz"))
    return Counter(examples("tfrecord", *names))


def test_records_give_the_rows_of_both_csv_files() -> None:
    both = Counter(examples("csv", "csv/data.csv", "csv/data2.csv"))
    records = from_records()
    assert records.total() == both.total() == 15_000
    # One of TFX's own 15,000 trips is another in each set.
    assert (records - both).total() == 1


def test_statistics_are_equal(from_csv) -> None:
    expected = statistics(from_csv)
    assert expected["company"].string_stats.common_stats.num_non_missing == 6_538
    assert statistics(examples("parquet", "parquet/data.parquet", missing=MISSING)) == expected
    assert statistics(examples("avro", "avro/data.avro")) == expected
    among_records = from_records() & Counter(from_csv)
    assert statistics(sorted(among_records.elements())) == expected

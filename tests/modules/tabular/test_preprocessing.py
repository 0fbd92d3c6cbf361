"""Exact outputs of the tabular preprocessing."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.tabular import TabularInputHparams
from modules.tabular import columns, preprocessing
from modules.tabular.preprocessing import preprocessing_fn

CONFIG = {
    "label_feature": "label",
    "categorical": ["code"],
    "ignore": ["id"],
    "crosses": [["code", "kind"], ["age", "kind"]],
    "buckets": 2,
    "vocabulary_size": 10,
    "cross_buckets": 50,
}
DTYPES = {
    "id": "int64", "code": "int64", "kind": "string", "age": "int64", "size": "float32", "label": "int64"
}  # fmt: skip


def test_columns_are_sorted_by_type_and_the_label_is_not_among_them() -> None:
    found = columns.layout(DTYPES, TabularInputHparams.from_config(CONFIG))
    assert found.numeric == ("age", "size")
    assert found.categorical == ("code", "kind")
    assert found.crosses == (("code", "kind"), ("age", "kind"))
    assert found.width == 4 + 2 + 2


@pytest.mark.parametrize(
    "change", [{"categorical": ["cod"]}, {"ignore": ["x"]}, {"crosses": [["code", "x"]]}]
)
def test_a_column_that_is_not_there_is_named(change) -> None:
    with pytest.raises(TrainingError, match="There is no column"):
        columns.layout(DTYPES, TabularInputHparams.from_config({**CONFIG, **change}))


@pytest.mark.parametrize("hidden", ["id", "label"])
def test_a_cross_of_a_column_that_the_model_does_not_see(hidden: str) -> None:
    hparams = TabularInputHparams.from_config({**CONFIG, "crosses": [["code", hidden]]})
    with pytest.raises(TrainingError, match=f"cross has the column '{hidden}'"):
        columns.layout(DTYPES, hparams)


def test_nothing_left_to_see() -> None:
    with pytest.raises(TrainingError, match="No column is left"):
        columns.layout(
            {"id": "int64", "label": "int64"},
            TabularInputHparams.from_config({**CONFIG, "categorical": [], "crosses": []}),
        )


@pytest.mark.parametrize("missing", [[], [float("inf")]])
def test_transform_gives_scores_buckets_indices_and_crosses(tmp_path, missing) -> None:
    """Missing and infinite numbers count as the mean, missing texts as a value of their own."""
    import apache_beam as beam
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

    rows = [
        {"id": [1], "code": [7], "kind": ["a"], "age": [40], "size": [1.0], "label": [0]},
        {"id": [2], "code": [7], "kind": [], "age": [10], "size": missing, "label": [1]},
        {"id": [3], "code": [9], "kind": ["a"], "age": [30], "size": [3.0], "label": [0]},
        {"id": [4], "code": [7], "kind": ["a"], "age": [20], "size": [5.0], "label": [0]},
    ]
    spec = {
        name: tf.io.VarLenFeature(tf.as_dtype(dtype))
        if name in ("kind", "size")
        else tf.io.FixedLenFeature([1], tf.as_dtype(dtype))
        for name, dtype in DTYPES.items()
    }
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(spec))
    with beam.Pipeline(runner="FnApiRunner") as pipeline, tft_beam.Context(temp_dir=str(tmp_path)):
        (data, _), _ = (pipeline | beam.Create(rows), metadata) | tft_beam.AnalyzeAndTransformDataset(
            lambda inputs: preprocessing_fn(inputs, CONFIG)
        )
        _ = (
            data
            | beam.Map(lambda row: (row["row"], int(row["label"])))
            | beam.combiners.ToList()
            | beam.Map(_check)
        )


def _check(found) -> None:
    # By age, which is different in every row: rows 2, 4, 3, 1 of the above.
    table = np.array(sorted((row for row, _ in found), key=lambda row: row[0]))
    ages = np.array([10.0, 20.0, 30.0, 40.0])
    sizes = np.array([3.0, 5.0, 3.0, 1.0])  # the first is the mean of 1, 3 and 5
    for column, values in ((0, ages), (1, sizes)):
        np.testing.assert_allclose(table[:, column], (values - values.mean()) / values.std(), atol=1e-6)
    assert list(table[:, 2]) == [0.0, 0.0, 1.0, 1.0] or list(table[:, 2]) == [0.0, 1.0, 1.0, 1.0]
    assert table[1, 3] == 1.0 and table[3, 3] == 0.0
    assert list(table[:, 4]) == [0.0, 0.0, 1.0, 0.0]  # code 7 three times, 9 once
    assert list(table[:, 5]) == [1.0, 0.0, 0.0, 0.0]  # kind "a" three times, missing once
    kinds = ["__missing__", "a", "a", "a"]
    for column, parts in ((6, ("7", "7", "9", "7")), (7, [f"{bucket:.0f}" for bucket in table[:, 2]])):
        texts = [f"{part}\x1f{kind}" for part, kind in zip(parts, kinds, strict=True)]
        assert list(table[:, column]) == list(tf.strings.to_hash_bucket_fast(texts, 50).numpy())
    assert sorted(label for _, label in found) == [0, 0, 0, 1]


def test_long_codes_and_times_keep_all_their_digits() -> None:
    numbers = tf.constant([[1_234_567], [1_234_568], [9_007_199_254_740_993]], tf.int64)
    texts = [b"1234567", b"1234568", b"9007199254740993"]
    sparse = tf.sparse.from_dense(numbers)
    for value in (numbers, sparse):
        assert list(preprocessing._dense(value, text=True).numpy()) == texts
        assert list(preprocessing._dense(value, text=False).numpy()[:2]) == [1_234_567.0, 1_234_568.0]
    codes = tf.constant([[1_234_567.0], [1.5], [float("nan")]])
    assert list(preprocessing._dense(codes, text=True).numpy()) == [b"1234567", b"1.5", b"__missing__"]


def test_classes_are_no_numbers_with_a_fraction() -> None:
    hparams = TabularInputHparams.from_config(CONFIG)
    with pytest.raises(TrainingError, match="numbers with a fraction; classes are texts or whole numbers"):
        preprocessing._label(tf.constant([[1.0], [0.0]]), hparams)

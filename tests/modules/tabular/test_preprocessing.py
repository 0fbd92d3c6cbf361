"""Exact outputs of the tabular preprocessing."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.tabular import TabularInputHparams
from modules.tabular import columns
from modules.tabular.preprocessing import preprocessing_fn

CONFIG = {
    "label_feature": "label",
    "categorical": ["code"],
    "ignore": ["id"],
    "crosses": [["code", "kind"]],
    "buckets": 2,
    "vocabulary_size": 10,
    "cross_buckets": 50,
}
DTYPES = {"id": "int64", "code": "int64", "kind": "string", "size": "float32", "label": "int64"}


def test_columns_are_sorted_by_type_and_the_label_is_not_among_them() -> None:
    found = columns.layout(DTYPES, TabularInputHparams.from_config(CONFIG))
    assert found.numeric == ("size",)
    assert found.categorical == ("code", "kind")
    assert found.crosses == (("code", "kind"),)
    assert found.width == 2 + 2 + 1


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


def test_transform_gives_scores_buckets_indices_and_crosses(tmp_path) -> None:
    """Missing numbers count as the mean, missing texts as a value of their own."""
    import apache_beam as beam
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

    rows = [
        {"id": [1], "code": [7], "kind": ["a"], "size": [1.0], "label": [0]},
        {"id": [2], "code": [7], "kind": [], "size": [], "label": [1]},
        {"id": [3], "code": [9], "kind": ["a"], "size": [3.0], "label": [0]},
        {"id": [4], "code": [7], "kind": ["a"], "size": [5.0], "label": [0]},
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
    table = np.array([row for row, _ in found])
    sizes = np.array([1.0, 3.0, 3.0, 5.0])  # the missing one is the mean of 1, 3 and 5
    scores = (sizes - sizes.mean()) / sizes.std()
    np.testing.assert_allclose(np.sort(table[:, 0]), np.sort(scores), atol=1e-6)
    by_score = table[np.argsort(table[:, 0], kind="stable")]
    assert set(table[:, 1]) == {0.0, 1.0}
    assert sorted(table[:, 2]) == [0.0, 0.0, 0.0, 1.0]  # code 7 three times, 9 once
    assert sorted(table[:, 3]) == [0.0, 0.0, 0.0, 1.0]  # kind "a" three times, missing once
    assert by_score[0, 4] == by_score[-1, 4]  # (7, a) twice
    assert len(set(table[:, 4])) == 3
    assert sorted(label for _, label in found) == [0, 0, 0, 1]

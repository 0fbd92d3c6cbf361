"""Transform's part for tables: what each column becomes, from its type alone.

Numbers become z-scores and quantile buckets, texts and codes indices into a
vocabulary, and crosses hashed combinations. A missing number is the mean, and
so is an infinite one, which would leave its column without a mean; a missing
text is a category of its own. All leave as one row of floats, so that
a model, and what a model is rewritten into, takes a single tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

from modules import contract
from modules.class_labels import class_ids
from modules.errors import TrainingError
from modules.hparams.tabular import REGRESSION, TabularInputHparams
from modules.tabular import columns

MISSING = "__missing__"


def preprocessing_fn(inputs: dict[str, Any], custom_config: dict[str, Any]) -> dict[str, tf.Tensor]:
    """Maps raw columns to transformed ones.

    Args:
        inputs: column -> (B, 1) tensor, or a sparse one where values may be missing.
        custom_config: see `TabularInputHparams.from_config`.

    Returns:
        `row` (B, F) float32: z-scores, then buckets, categories and crosses as
        whole numbers, in the order of `columns.Layout`; and the label: for
        classification (B,) int64, an index into the vocabulary `label`; for
        regression (B,) float32, with its mean and variance (B, 1) over the
        training split.
    """
    hparams = TabularInputHparams.from_config(custom_config)
    layout = columns.layout({name: _dtype(value) for name, value in inputs.items()}, hparams)
    dense = {
        **{name: _dense(inputs[name], text=False) for name in layout.numeric},
        **{name: _dense(inputs[name], text=True) for name in layout.categorical},
    }
    scores, buckets = _numbers([dense[name] for name in layout.numeric], hparams)
    categories = [_category(name, dense[name], hparams) for name in layout.categorical]
    parts = {**dense, **dict(zip(layout.numeric, buckets, strict=True))}
    crosses = [_cross(names, parts, hparams) for names in layout.crosses]
    row = [tf.cast(value, tf.float32) for value in (*scores, *buckets, *categories, *crosses)]
    label = inputs[hparams.label_feature]
    targets = _target if hparams.task == REGRESSION else _label
    return {columns.ROW: tf.stack(row, axis=1), **targets(label, hparams)}


def _dtype(value: Any) -> str:
    return str(value.dtype.name)


def _dense(value: Any, *, text: bool) -> tf.Tensor:
    """(B,) float64 with NaN where a number is missing, or (B,) string with the word for a missing text.

    Whole numbers do not go by float32, which has seven digits: times and long
    codes have more.
    """
    sparse = isinstance(value, tf.sparse.SparseTensor | tf.compat.v1.SparseTensor)
    given = value.values if sparse else tf.reshape(value, [-1])
    made = _as_text(given) if text else tf.cast(given, tf.float64)
    if not sparse:
        return made
    return _first(tf.SparseTensor(value.indices, made, value.dense_shape), MISSING if text else float("nan"))


def _first(value: tf.SparseTensor, default: str | float) -> tf.Tensor:
    dense = tf.sparse.to_dense(
        tf.SparseTensor(value.indices, value.values, [value.dense_shape[0], 1]), default
    )
    return tf.squeeze(dense, axis=1)


def _numbers(
    values: Sequence[tf.Tensor], hparams: TabularInputHparams
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Z-score and bucket of each column, each (B,).

    All columns go through one analyzer of each kind: every analyzer costs some 0.4
    CPU seconds before it has seen a row, and a table may have a hundred columns.
    """
    if not values:
        return [], []
    # A sum down a column rounds at every row: of longitudes float32 would lose the third digit.
    table = _filled(tf.stack(values, axis=1))
    scores = tft.scale_to_z_score(table, elementwise=True)
    buckets = tft.bucketize(tf.cast(table, tf.float32), hparams.buckets, elementwise=True)
    return tf.unstack(scores, axis=1), tf.unstack(buckets, axis=1)


def _filled(table: tf.Tensor) -> tf.Tensor:
    """(B, N) with missing and infinite numbers as the mean of the others of their column."""
    missing = tf.logical_not(tf.math.is_finite(table))
    present = tf.cast(tf.logical_not(missing), table.dtype)
    known = tf.where(missing, tf.zeros_like(table), table)
    sums = tft.mean(tf.concat([known, present], axis=1), reduce_instance_dims=False)
    mean, share = tf.split(sums, 2)
    return tf.where(missing, mean / tf.maximum(share, 1e-6), table)


def _as_text(value: tf.Tensor) -> tf.Tensor:
    """Codes as texts: whole numbers without a fraction, and missing ones as the word for it.

    Nine digits tell all numbers of float32 apart.
    """
    if value.dtype == tf.string:
        return value
    if value.dtype.is_integer:
        return tf.strings.as_string(value)
    text = tf.strings.as_string(value, precision=9, shortest=True)
    return tf.where(tf.math.is_nan(value), MISSING, text)


def _category(name: str, value: tf.Tensor, hparams: TabularInputHparams) -> tf.Tensor:
    """Index into the column's vocabulary; what is not in it shares the index after the last."""
    return tft.compute_and_apply_vocabulary(
        value,
        top_k=hparams.vocabulary_size,
        num_oov_buckets=1,
        vocab_filename=columns.vocabulary(name),
    )


def _cross(names: tuple[str, ...], parts: dict[str, tf.Tensor], hparams: TabularInputHparams) -> tf.Tensor:
    """Hash bucket of a combination: of buckets for numbers, of values for the others."""
    texts = [_as_text(parts[name]) for name in names]
    return tf.strings.to_hash_bucket_fast(tf.strings.join(texts, separator="\x1f"), hparams.cross_buckets)


def _label(value: Any, hparams: TabularInputHparams) -> dict[str, tf.Tensor]:
    flat = _flat(value)
    if flat.dtype.is_floating:
        raise TrainingError(
            f"The label {hparams.label_feature!r} holds numbers with a fraction; classes are texts or whole "
            "numbers",
            place="data.label, model.task",
            remedy="Write the classes as such, or set model.task: regression.",
        )
    return {hparams.label_feature: class_ids(_as_text(flat))}


def _target(value: Any, hparams: TabularInputHparams) -> dict[str, tf.Tensor]:
    """The number to predict, and by how much it varies."""
    flat = _flat(value)
    if flat.dtype == tf.string:
        raise TrainingError(
            f"The label {hparams.label_feature!r} holds texts; a regression needs numbers",
            place="data.label, model.task",
            remedy="Name a numeric column, or set model.task: classification.",
        )
    target = tf.cast(flat, tf.float32)
    rows = tf.stack([tf.shape(target)[0], 1])
    return {
        hparams.label_feature: target,
        contract.LABEL_MEAN: tf.fill(rows, tft.mean(target)),
        contract.LABEL_VARIANCE: tf.fill(rows, tft.var(target)),
    }


def _flat(value: Any) -> tf.Tensor:
    return tf.reshape(value if isinstance(value, tf.Tensor) else value.values, [-1])

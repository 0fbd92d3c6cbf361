"""Transform's part for tables: what each column becomes, from its type alone.

Numbers become z-scores and quantile buckets, texts and codes indices into a
vocabulary, and crosses hashed combinations. A missing number is the mean; a
missing text is a category of its own. All leave as one row of floats, so that
a model, and what a model is rewritten into, takes a single tensor.
"""

from __future__ import annotations

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
    dense = {name: _dense(inputs[name]) for name in {*layout.numeric, *layout.categorical}}
    scores = [_z_score(dense[name]) for name in layout.numeric]
    buckets = [tft.bucketize(_filled(dense[name]), hparams.buckets, name=name) for name in layout.numeric]
    categories = [_category(name, dense[name], hparams) for name in layout.categorical]
    crosses = [_cross(names, dense, hparams) for names in layout.crosses]
    row = [tf.cast(value, tf.float32) for value in (*scores, *buckets, *categories, *crosses)]
    label = inputs[hparams.label_feature]
    targets = _target if hparams.task == REGRESSION else _label
    return {columns.ROW: tf.stack(row, axis=1), **targets(label, hparams)}


def _dtype(value: Any) -> str:
    return str(value.dtype.name)


def _dense(value: Any) -> tf.Tensor:
    """(B,) with a value for each row: NaN, or the word for a missing text."""
    if not isinstance(value, tf.sparse.SparseTensor | tf.compat.v1.SparseTensor):
        flat = tf.reshape(value, [-1])
        return flat if flat.dtype == tf.string else tf.cast(flat, tf.float32)
    if value.dtype == tf.string:
        return _first(value, MISSING)
    return _first(
        tf.SparseTensor(value.indices, tf.cast(value.values, tf.float32), value.dense_shape), float("nan")
    )


def _first(value: tf.SparseTensor, default: str | float) -> tf.Tensor:
    dense = tf.sparse.to_dense(
        tf.SparseTensor(value.indices, value.values, [value.dense_shape[0], 1]), default
    )
    return tf.squeeze(dense, axis=1)


def _filled(value: tf.Tensor) -> tf.Tensor:
    """Missing numbers as the mean of those that are there."""
    missing = tf.math.is_nan(value)
    present = tf.cast(tf.logical_not(missing), tf.float32)
    mean = tft.mean(tf.where(missing, 0.0, value)) / tf.maximum(tft.mean(present), 1e-6)
    return tf.where(missing, mean, value)


def _z_score(value: tf.Tensor) -> tf.Tensor:
    return tft.scale_to_z_score(_filled(value))


def _as_text(value: tf.Tensor) -> tf.Tensor:
    """Codes as texts: whole numbers without a fraction, and missing ones as the word for it."""
    if value.dtype == tf.string:
        return value
    text = tf.strings.as_string(value, precision=6, shortest=True)
    return tf.where(tf.math.is_nan(value), MISSING, text)


def _category(name: str, value: tf.Tensor, hparams: TabularInputHparams) -> tf.Tensor:
    """Index into the column's vocabulary; what is not in it shares the index after the last."""
    return tft.compute_and_apply_vocabulary(
        _as_text(value),
        top_k=hparams.vocabulary_size,
        num_oov_buckets=1,
        vocab_filename=columns.vocabulary(name),
    )


def _cross(names: tuple[str, ...], dense: dict[str, tf.Tensor], hparams: TabularInputHparams) -> tf.Tensor:
    """Hash bucket of a combination: of buckets for numbers, of values for the others."""
    parts = [_cross_part(name, dense[name], hparams) for name in names]
    return tf.strings.to_hash_bucket_fast(tf.strings.join(parts, separator="\x1f"), hparams.cross_buckets)


def _cross_part(name: str, value: tf.Tensor, hparams: TabularInputHparams) -> tf.Tensor:
    if value.dtype == tf.string or name in hparams.categorical:
        return _as_text(value)
    return tf.strings.as_string(tft.bucketize(_filled(value), hparams.buckets))


def _label(value: Any, hparams: TabularInputHparams) -> dict[str, tf.Tensor]:
    flat = _flat(value)
    text = flat if flat.dtype == tf.string else tf.strings.as_string(flat)
    return {hparams.label_feature: class_ids(text)}


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

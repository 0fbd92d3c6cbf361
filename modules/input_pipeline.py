"""tf.data from TFRecords of transformed examples to batches.

dataset = read_examples(fn_args.train_files, feature_spec, seed=0)   # parsed, one by one
dataset = training_batches(dataset.map(decode), batch_size=64, seed=0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from modules.errors import TrainingError

AUTOTUNE = tf.data.AUTOTUNE
_PARSE_BATCH = 256
_SHUFFLE_BUFFER = 10_000


def read_examples(file_patterns: Sequence[str], feature_spec: Mapping[str, object]) -> tf.data.Dataset:
    """Reads and parses gzipped TFRecords, in a fixed order.

    Args:
        file_patterns: globs, as TFX hands them to a trainer.
        feature_spec: as `tf.io.parse_example` takes it.

    Returns:
        A dataset of single examples: feature name -> tensor.

    Raises:
        TrainingError: no file matches.
    """
    files = sorted(name for pattern in file_patterns for name in tf.io.gfile.glob(pattern))
    if not files:
        raise TrainingError(
            "A split has no files to train on",
            place=", ".join(file_patterns),
            remedy="Give the split a larger share (data.splits), or more data.",
        )
    records = tf.data.Dataset.from_tensor_slices(files).interleave(
        lambda name: tf.data.TFRecordDataset(name, compression_type="GZIP"),
        num_parallel_calls=AUTOTUNE,
        deterministic=True,
    )
    # Parsing in batches costs a fraction of parsing one by one.
    parsed = records.batch(_PARSE_BATCH).map(
        lambda batch: tf.io.parse_example(batch, dict(feature_spec)), num_parallel_calls=AUTOTUNE
    )
    return parsed.unbatch()


def training_batches(dataset: tf.data.Dataset, *, batch_size: int, seed: int) -> tf.data.Dataset:
    """Shuffles anew each epoch and batches; the last, smaller batch is kept."""
    shuffled = dataset.shuffle(_SHUFFLE_BUFFER, seed=seed, reshuffle_each_iteration=True)
    return shuffled.batch(batch_size).prefetch(AUTOTUNE)


def evaluation_batches(dataset: tf.data.Dataset, *, batch_size: int) -> tf.data.Dataset:
    """Batches in order."""
    return dataset.batch(batch_size).prefetch(AUTOTUNE)

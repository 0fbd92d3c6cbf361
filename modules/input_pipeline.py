"""tf.data from TFRecords of transformed examples to batches.

    dataset = read_examples(fn_args.train_files, feature_spec)           # parsed, one by one
    stream = TrainingStream(dataset.map(decode), examples=1073, batch_size=64, seed=0)
    stream.batches(epoch=0, step=0, epochs=30)

A stream's batch is a function of seed, epoch and step alone, so that a
training can go on in the middle, and every worker sees the same batches. What
is random in an example depends on its place in the epoch, what is random in a
batch on the batch's, never on the process that makes it.

Order is always that of the files, on any number of cores: every parallel step
is deterministic. Under a distribution strategy the auto-shard policy is OFF:
every worker makes the same batches and takes its own rows of each, which keeps
a step's result that of one device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from modules.errors import TrainingError

AUTOTUNE = tf.data.AUTOTUNE
_PARSE_BATCH = 256
_BLOCK = 16
"""Records of a file in turn: what is done for each block costs more than a row of a table does."""
SHUFFLED_AT_MOST = 1_000_000
"""Examples. Nothing is trained on before the buffer is full: of so many rows of a table some seconds."""
_FILES_AT_ONCE = 16
"""Read in turns. A constant: TensorFlow's own choice goes by the cores, and the order with it."""


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
    return read_batches(file_patterns, feature_spec).unbatch()


def read_batches(file_patterns: Sequence[str], feature_spec: Mapping[str, object]) -> tf.data.Dataset:
    """The same with up to 256 examples at a time, which is how small ones are best changed.

    A function that is mapped over single examples costs some 30 microseconds for
    each, whatever it does.

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
    blocks = tf.data.Dataset.from_tensor_slices(files).interleave(
        lambda name: tf.data.TFRecordDataset(name, compression_type="GZIP").batch(_BLOCK),
        cycle_length=_FILES_AT_ONCE,
        num_parallel_calls=AUTOTUNE,
        deterministic=True,
    )
    return (
        blocks.unbatch()
        .batch(_PARSE_BATCH)
        .map(lambda batch: tf.io.parse_example(batch, dict(feature_spec)), num_parallel_calls=AUTOTUNE)
    )


Augment = Callable[..., Any]
"""(features, labels, seed) -> (features, labels); `seed` is (2,) int64, for tf.random.stateless_*."""


Batching = Callable[[tf.data.Dataset, int, tf.Tensor | None], tf.data.Dataset]
"""(single examples in order, batch size, seed) -> batches: as many as plain batching makes, the smaller
one last. The seed is () int64 in training, and None where the order of batches does not matter."""


def plain_batches(dataset: tf.data.Dataset, batch_size: int, seed: tf.Tensor | None) -> tf.data.Dataset:
    """Neighbours in a batch; all examples must have one shape."""
    return dataset.batch(batch_size)


@dataclass(frozen=True)
class TrainingStream:
    """Shuffled batches of a training split, epoch after epoch.

    Attributes:
        dataset: single (features, labels) pairs, the same in every pass.
        examples: how many.
        batch_size: the last batch of an epoch is smaller where they do not divide.
        seed: of shuffling and augmentation.
        augment: applied to whole batches.
        each: applied to single examples before they are batched, in parallel.
        unchanged: single pairs with nothing random, where `each` makes the features.
        shuffle_buffer: examples that are shuffled at a time. Of data that are sorted by class a smaller one
            than the data makes batches of few classes.
        batching: how examples come together; another than plain batches allows no `each`.
    """

    dataset: tf.data.Dataset
    examples: int
    batch_size: int
    seed: int
    augment: Augment | None = None
    each: Augment | None = None
    unchanged: tf.data.Dataset | None = None
    shuffle_buffer: int = SHUFFLED_AT_MOST
    batching: Batching = plain_batches

    def batches(self, *, epoch: int, step: int, epochs: int) -> tf.data.Dataset:
        """The batches from `step` of `epoch` (both from 0) to the end of the last epoch.

        One data set over all epochs, so that the next epoch's first batches are
        made while the last ones of this are trained on.
        """

        def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
            # Of this function alone: the process's seed must not count, and 0
            # cannot be combined with a seed that is a tensor.
            tf.compat.v1.get_default_graph().seed = 1
            shuffled = self.dataset.shuffle(
                min(self.shuffle_buffer, max(self.examples, 1)),
                seed=self.seed + number,
                reshuffle_each_iteration=False,
            )
            # Skipped before anything is made of them: going on costs no decoding.
            done = tf.where(number == epoch, tf.constant(step, tf.int64), 0)
            if self.batching is not plain_batches:
                together = self.batching(shuffled, self.batch_size, self.seed + number)
                numbered = together.enumerate().skip(done)
                return numbered.map(lambda index, batch: (tf.stack([self.seed + number, index]), batch))
            return self._plain(shuffled.enumerate().skip(done * self.batch_size), self.seed + number)

        stream = tf.data.Dataset.range(epoch, epochs).flat_map(one_epoch)
        made = stream.map(self._augmented, num_parallel_calls=AUTOTUNE, deterministic=True)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        return made.with_options(options).prefetch(AUTOTUNE)

    def _plain(self, numbered: tf.data.Dataset, seed: tf.Tensor) -> tf.data.Dataset:
        """Batches of numbered examples, each with the seed of what is random in it."""
        if self.each is not None:
            numbered = numbered.map(
                lambda index, example: (index, self._made(tf.stack([seed, index]), example)),
                num_parallel_calls=AUTOTUNE,
                deterministic=True,
            )
        return numbered.batch(self.batch_size).map(
            lambda indices, batch: (tf.stack([seed, indices[0] // self.batch_size]), batch)
        )

    def _made(self, seed: tf.Tensor, example: tuple[Any, ...]) -> tuple[Any, ...]:
        return example if self.each is None else self.each(*example, seed=seed)

    def _augmented(self, seed: tf.Tensor, batch: tuple[Any, ...]) -> tuple[Any, ...]:
        return batch if self.augment is None else self.augment(*batch, seed=seed)


def evaluation_batches(
    dataset: tf.data.Dataset, *, batch_size: int, batching: Batching = plain_batches
) -> tf.data.Dataset:
    """Batches of a whole split, the same in every pass."""
    return batching(dataset, batch_size, None).prefetch(AUTOTUNE)

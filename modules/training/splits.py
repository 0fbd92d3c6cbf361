"""Training and validation split, cached where that pays, with labels checked.

    loaded = load(sources, hparams.train, augment=augment, work_folder="state/")
    loop.fit(model, loaded.stream, loaded.validation, session, class_counts=loaded.class_counts)

What is done to an example once (decoding, one-hot labels) is done before the
cache, what is random after it. Where the cache is off, encoded examples are
shuffled and made into the model's input in parallel behind that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from modules import input_pipeline
from modules.errors import TrainingError
from modules.hparams.train import TrainHparams
from modules.training import caching

ToInput = Callable[[dict[str, tf.Tensor]], tf.Tensor]
ToTraining = Callable[[dict[str, tf.Tensor], tf.Tensor], tf.Tensor]

_UNKNOWN = "an example has a label without a class"
_SHUFFLE_BYTES = 1 << 30
_LEAST_SHUFFLED = 1_000
_BYTES_AROUND = 512
"""What TensorFlow needs of memory for an example in the buffer, besides its numbers."""


@dataclass(frozen=True)
class Sources:
    """Where the examples are, and how one becomes what the model takes.

    Attributes:
        train: globs of the training split's files.
        validation: globs of the validation split's files.
        features: parse specifications of the features that make an example.
        label: name and parse specification of the class id, or for a regression of the number.
        class_names: by id; none for a regression.
        class_counts: training examples of each class, as Transform counted them; None to
            count them here.
        to_input: features of one example to the model's input.
        to_training: the same with a seed (2,) int64, where what is random must come
            before the input is made (a random part of a picture); None else.
        batching: how examples come together.
        batched: whether `to_input` takes features of a batch of examples to a batch of inputs.
    """

    train: Sequence[str]
    validation: Sequence[str]
    features: Mapping[str, Any]
    label: tuple[str, Any]
    class_names: Sequence[str]
    to_input: ToInput
    class_counts: Sequence[int] | None = None
    to_training: ToTraining | None = None
    batching: input_pipeline.Batching = input_pipeline.plain_batches
    batched: bool = False


@dataclass(frozen=True)
class Loaded:
    """What training is given.

    Attributes:
        stream: of the training split.
        validation: batches in order.
        pairs: single (input, one-hot label) pairs of the training split, with nothing random.
        validation_pairs: the same of the validation split.
        class_counts: training examples of each class; of a regression, of all.
        record: examples, bytes of an example as the model takes it, and the cache.
    """

    stream: input_pipeline.TrainingStream
    validation: tf.data.Dataset
    pairs: tf.data.Dataset
    validation_pairs: tf.data.Dataset
    class_counts: list[int]
    record: dict[str, Any]


def load(
    sources: Sources, train: TrainHparams, *, augment: input_pipeline.Augment | None, work_folder: str
) -> Loaded:
    """Checks and counts both splits, decides about the cache and fills it.

    A training split that Transform has counted is not read for that once more.

    Args:
        sources: see `Sources`.
        train: batch size, seed and cache.
        augment: of training batches.
        work_folder: for a cache on disk; empty for the system's temporary folder.

    Raises:
        TrainingError: a split is empty, or has a label that the training split has not.
    """
    count = count_classes if sources.class_names else count_numbers
    known = sources.class_counts
    counts = (
        count(_labels(sources, sources.train), "train", sources.class_names) if known is None else [*known]
    )
    if not sum(counts):
        raise _empty("train")
    held_out = count(_labels(sources, sources.validation), "validation", sources.class_names)
    made = _made(sources, sources.validation)
    item_bytes = caching.element_bytes(made.element_spec)
    cache = caching.choose(train.cache, item_bytes * (sum(counts) + sum(held_out)), work_folder)
    stream = _stream(sources, train, cache, sum(counts), item_bytes, augment)
    kept = cache.apply(made)
    validation = input_pipeline.evaluation_batches(
        kept, batch_size=train.batch_size, batching=sources.batching
    )
    # Where each epoch takes other parts of a picture, only the encoded ones can be kept.
    kind = "off" if sources.to_training is not None and cache.kind == "disk" else cache.kind
    record = {"examples": sum(counts), "bytes_per_example": item_bytes, "cache": kind}
    return Loaded(
        stream,
        validation,
        stream.dataset if stream.unchanged is None else stream.unchanged,
        kept,
        counts,
        record,
    )


def _stream(
    sources: Sources,
    train: TrainHparams,
    cache: caching.Cache,
    examples: int,
    item_bytes: int,
    augment: input_pipeline.Augment | None,
) -> input_pipeline.TrainingStream:
    to_training = sources.to_training
    own_batches = sources.batching is not input_pipeline.plain_batches
    if to_training is None and (cache.kind != "off" or own_batches or sources.batched):
        dataset, each, unchanged = cache.apply(_made(sources, sources.train)), None, None
    else:
        dataset = _encoded(sources, sources.train)
        unchanged = _made(sources, sources.train)
        if to_training is not None and cache.kind == "memory":
            dataset = cache.apply(dataset)

        def each(features: Any, label: tf.Tensor, *, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            made = to_training(features, seed) if to_training else sources.to_input(features)
            return made, label

    return input_pipeline.TrainingStream(
        dataset,
        examples=examples,
        batch_size=train.batch_size,
        seed=train.seed,
        augment=augment,
        each=each,
        unchanged=unchanged,
        batching=sources.batching,
        # Of the settings alone, not of this machine's memory or cache: the order
        # must be the same where a training goes on.
        shuffle_buffer=shuffle_buffer(item_bytes),
    )


def shuffle_buffer(item_bytes: int) -> int:
    """How many examples are shuffled at a time: a whole table or all texts, and of large pictures some."""
    fitting = _SHUFFLE_BYTES // (item_bytes + _BYTES_AROUND)
    return min(max(_LEAST_SHUFFLED, fitting), input_pipeline.SHUFFLED_AT_MOST)


def _encoded(sources: Sources, patterns: Sequence[str]) -> tf.data.Dataset:
    """Single (features, label) pairs: one-hot labels, or numbers."""
    return _encoded_batches(sources, patterns).unbatch()


def _encoded_batches(sources: Sources, patterns: Sequence[str]) -> tf.data.Dataset:
    name, spec = sources.label
    parsed = input_pipeline.read_batches(patterns, {**sources.features, name: spec})

    def pairs(examples: dict[str, tf.Tensor]) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        labels = tf.reshape(examples[name], [-1])
        if sources.class_names:
            labels = _one_hot(labels, len(sources.class_names))
        return {key: examples[key] for key in sources.features}, labels

    return parsed.map(pairs, num_parallel_calls=input_pipeline.AUTOTUNE)


def _one_hot(labels: tf.Tensor, classes: int) -> tf.Tensor:
    known = tf.reduce_all(tf.logical_and(labels >= 0, labels < classes))
    with tf.control_dependencies([tf.debugging.Assert(known, [_UNKNOWN, labels])]):
        return tf.one_hot(labels, classes)


def _made(sources: Sources, patterns: Sequence[str]) -> tf.data.Dataset:
    """Single (input, label) pairs: one-hot labels, or numbers."""
    encoded = _encoded_batches(sources, patterns)
    made = (encoded if sources.batched else encoded.unbatch()).map(
        lambda features, labels: (sources.to_input(features), labels),
        num_parallel_calls=input_pipeline.AUTOTUNE,
    )
    return made.unbatch() if sources.batched else made


def _labels(sources: Sources, patterns: Sequence[str]) -> tf.data.Dataset:
    """Batches of labels: (B,)."""
    name, spec = sources.label
    parsed = input_pipeline.read_batches(patterns, {name: spec})
    return parsed.map(lambda examples: tf.reshape(examples[name], [-1]))


def count_classes(labels: tf.data.Dataset, split: str, class_names: Sequence[str]) -> list[int]:
    """Counts each class of batches of class ids (B,) int64.

    Raises:
        TrainingError: the split is empty, or has a label that training has not.
    """
    counts = np.zeros(len(class_names), np.int64)
    for ids in labels.as_numpy_iterator():
        unknown = (ids < 0) | (ids >= len(class_names))
        if unknown.any():
            raise _unknown(
                f"split {split}, example {int(counts.sum()) + int(np.argmax(unknown))}", class_names
            )
        counts += np.bincount(ids, minlength=len(class_names))
    if not counts.sum():
        raise _empty(split)
    return [int(value) for value in counts]


def count_numbers(labels: tf.data.Dataset, split: str, class_names: Sequence[str]) -> list[int]:
    """Counts batches of numbers (B,) float32.

    Raises:
        TrainingError: the split is empty, or has a label that is no finite number.
    """
    count = 0
    for values in labels.as_numpy_iterator():
        finite = np.isfinite(values)
        if not finite.all():
            raise TrainingError(
                f"The {split} split has a label that is no finite number",
                place=f"split {split}, example {count + int(np.argmin(finite))}",
                remedy="Correct the label, or leave the example out.",
            )
        count += len(values)
    if not count:
        raise _empty(split)
    return [count]


@contextlib.contextmanager
def explained(class_names: Sequence[str]) -> Iterator[None]:
    """Says which split is wrong where an example without a class comes up while training.

    Raises:
        TrainingError: a label outside of the classes that Transform counted.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        if _UNKNOWN not in str(error):
            raise
        raise _unknown("split train", class_names) from error


def _unknown(place: str, class_names: Sequence[str]) -> TrainingError:
    return TrainingError(
        "An example has a label that is no class of the training split",
        place=place,
        remedy=f"Classes seen in training: {', '.join(class_names)}. Correct the label, or add data.",
    )


def _empty(split: str) -> TrainingError:
    return TrainingError(
        f"The {split} split is empty",
        place=f"split {split}",
        remedy="Give it a larger share (data.splits), or more data.",
    )

"""The two splits of a classifier's training, from transformed examples.

    data = load(fn_args, transform, task)
    data.stream(hparams.train, task.augment), data.validation, data.names

Each split is read once to check its labels, which fills its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

from modules import contract, input_pipeline
from modules.errors import TrainingError
from modules.hparams import TrainHparams

if TYPE_CHECKING:
    from tfx.components import FnArgs


class Readable(Protocol):
    """What is needed of a task to read its data."""

    @property
    def features(self) -> tuple[str, ...]: ...

    @property
    def label(self) -> str: ...

    @property
    def to_input(self) -> Callable[[dict[str, tf.Tensor]], tf.Tensor]: ...


@dataclass(frozen=True)
class Splits:
    """Single (input, one-hot label) pairs of both splits.

    Attributes:
        training: cached in memory.
        validation: cached in memory.
        names: of the classes.
        class_counts: training examples of each.
    """

    training: tf.data.Dataset
    validation: tf.data.Dataset
    names: list[str]
    class_counts: list[int]

    def stream(
        self, train: TrainHparams, augment: input_pipeline.Augment | None
    ) -> input_pipeline.TrainingStream:
        """The training split in batches."""
        return input_pipeline.TrainingStream(
            self.training,
            examples=sum(self.class_counts),
            batch_size=train.batch_size,
            seed=train.seed,
            augment=augment,
        )


def load(fn_args: FnArgs, transform: tft.TFTransformOutput, task: Readable) -> Splits:
    """Reads and checks both splits.

    Raises:
        TrainingError: a split is empty, or has a label that training has not.
    """
    names = [name.decode() for name in transform.vocabulary_by_name(contract.LABEL_VOCABULARY)]
    training = _split(fn_args.train_files, transform, task, len(names))
    validation = _split(fn_args.eval_files, transform, task, len(names))
    class_counts = count_classes(training, "train", names)
    count_classes(validation, "validation", names)
    return Splits(training, validation, names, class_counts)


def _split(
    patterns: Sequence[str], transform: tft.TFTransformOutput, task: Readable, class_count: int
) -> tf.data.Dataset:
    """Single (input, one-hot label) pairs, made once and kept in memory."""
    spec = transform.transformed_feature_spec()
    wanted = {name: spec[name] for name in (*task.features, task.label)}

    def pair(features: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        return task.to_input(features), tf.one_hot(tf.reshape(features[task.label], []), class_count)

    dataset = input_pipeline.read_examples(patterns, wanted)
    return dataset.map(pair, num_parallel_calls=input_pipeline.AUTOTUNE).cache()


def count_classes(dataset: tf.data.Dataset, split: str, class_names: Sequence[str]) -> list[int]:
    """Reads the split once (which fills its cache), checks labels, and counts each class.

    Raises:
        TrainingError: the split is empty, or has a label that training has not.
    """
    count = 0
    counts = np.zeros(len(class_names), np.int64)
    for _, labels in dataset.batch(1024).as_numpy_iterator():
        if not np.all(labels.sum(axis=1) == 1):
            raise TrainingError(
                f"The {split} split has a label that the training split has not",
                place=f"split {split}, example {count + int(np.argmin(labels.sum(axis=1)))}",
                remedy=f"Classes seen in training: {', '.join(class_names)}. Correct the label, or add data.",
            )
        count += len(labels)
        counts += labels.sum(axis=0).astype(np.int64)
    if not count:
        raise TrainingError(
            f"The {split} split is empty",
            place=f"split {split}",
            remedy="Give it a larger share (data.splits), or more data.",
        )
    return [int(value) for value in counts]

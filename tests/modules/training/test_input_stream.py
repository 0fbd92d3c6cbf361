"""The training stream is a function of seed, epoch and step."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import tensorflow as tf

from modules.input_pipeline import TrainingStream
from modules.training import splits


def stream(**changes: Any) -> TrainingStream:
    dataset = tf.data.Dataset.range(10).map(lambda value: (value, value))
    return TrainingStream(**{"dataset": dataset, "examples": 10, "batch_size": 4, "seed": 1, **changes})


def values(made: TrainingStream, **position: int) -> list[list[int]]:
    return [features.numpy().tolist() for features, _ in made.batches(**position)]


def test_epochs_differ_are_whole_and_repeat_exactly() -> None:
    batches = values(stream(), epoch=0, step=0, epochs=2)
    assert [len(batch) for batch in batches] == [4, 4, 2, 4, 4, 2]
    first, second = [*chain(*batches[:3])], [*chain(*batches[3:])]
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert values(stream(), epoch=0, step=0, epochs=2) == batches
    assert values(stream(seed=2), epoch=0, step=0, epochs=2) != batches


def test_the_middle_is_where_it_was() -> None:
    whole = values(stream(), epoch=0, step=0, epochs=3)
    assert values(stream(), epoch=1, step=2, epochs=3) == whole[5:]


def test_augmentation_has_a_seed_of_its_own_for_every_batch() -> None:
    def noise(features: tf.Tensor, labels: tf.Tensor, *, seed: tf.Tensor) -> Any:
        return tf.random.stateless_uniform(tf.shape(features), seed), labels

    made = stream(augment=noise)
    whole = values(made, epoch=0, step=0, epochs=2)
    assert len({batch[0] for batch in whole}) == len(whole)
    np.testing.assert_array_equal(values(made, epoch=1, step=1, epochs=2)[0], whole[4])


def test_data_that_are_sorted_by_class_are_mixed_however_many() -> None:
    """30,000 examples, of which the first 20,000 are of one class."""
    rows = 30_000
    sorted_by_class = tf.data.Dataset.range(rows).map(
        lambda value: (value, tf.cast(value >= 20_000, tf.int64))
    )
    made = TrainingStream(
        sorted_by_class, examples=rows, batch_size=600, seed=1, shuffle_buffer=splits.shuffle_buffer(48)
    )
    first = [labels.numpy().mean() for _, labels in made.batches(epoch=0, step=0, epochs=1).take(3)]
    np.testing.assert_allclose(first, 1 / 3, atol=0.08)


def test_a_buffer_goes_by_bytes_between_a_thousand_and_a_million() -> None:
    assert splits.shuffle_buffer(48) == 1_000_000
    assert splits.shuffle_buffer(32 * 32 * 3 * 4) > 80_000
    assert 1_500 < splits.shuffle_buffer(224 * 224 * 3 * 4) < 2_000
    assert splits.shuffle_buffer(1 << 24) == 1_000

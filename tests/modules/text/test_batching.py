"""Batches by length: each example once, little padding, the same from any step on."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from modules.input_pipeline import TrainingStream, evaluation_batches
from modules.text import batching
from tests.modules.text.small import dataset, rows


def stream(examples: int = 45) -> TrainingStream:
    return TrainingStream(dataset(examples), examples, 8, 3, batching=batching.by_length(0))


def key(tokens: np.ndarray) -> tuple[float, ...]:
    return tuple(tokens[tokens != 0].tolist())


def test_every_example_comes_once_an_epoch_and_the_smaller_batch_last() -> None:
    batches = list(stream().batches(epoch=0, step=0, epochs=1).as_numpy_iterator())
    assert [len(labels) for _, labels in batches] == [8, 8, 8, 8, 8, 5]
    seen = sorted(key(row) for tokens, _ in batches for row in tokens)
    assert seen == sorted(key(row) for row in rows(45)[0])


def test_texts_of_a_batch_are_alike_in_length_and_padded_to_a_step() -> None:
    spread = [
        (tokens.shape[1], np.ptp((tokens != 0).sum(axis=1)))
        for tokens, _ in stream().batches(epoch=0, step=0, epochs=1).as_numpy_iterator()
    ]
    assert {width for width, _ in spread} == {8, 16}
    assert max(difference for _, difference in spread) <= 3


def test_epochs_differ_and_a_training_goes_on_in_the_middle() -> None:
    whole = list(stream().batches(epoch=0, step=0, epochs=2).as_numpy_iterator())
    rest = list(stream().batches(epoch=0, step=4, epochs=2).as_numpy_iterator())
    assert len(rest) == len(whole) - 4
    for (tokens, labels), (others, other_labels) in zip(whole[4:], rest, strict=True):
        np.testing.assert_array_equal(tokens, others)
        np.testing.assert_array_equal(labels, other_labels)
    assert [key(row) for row in whole[0][0]] != [key(row) for row in whole[6][0]]


def test_validation_comes_in_the_same_batches_every_time() -> None:
    batches = evaluation_batches(dataset(20), batch_size=8, batching=batching.by_length(0))
    first, second = ([tokens for tokens, _ in batches.as_numpy_iterator()] for _ in range(2))
    assert [len(tokens) for tokens in first] == [8, 8, 4]
    for tokens, others in zip(first, second, strict=True):
        np.testing.assert_array_equal(tokens, others)


@pytest.mark.parametrize(("length", "padded"), [(0, 8), (8, 8), (9, 16), (200, 256), (512, 512), (513, 1024)])
def test_lengths_are_few(length: int, padded: int) -> None:
    assert int(batching.padded_length(tf.constant(length))) == padded

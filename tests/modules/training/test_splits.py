"""Splits are checked before anything is trained on them."""

from __future__ import annotations

import pytest
import tensorflow as tf

from modules.errors import TrainingError
from modules.training.splits import count_classes


def split(ids: list[int], classes: int = 3) -> tf.data.Dataset:
    """Pairs with one-hot labels; -1 is what Transform gives a label it does not know."""
    return tf.data.Dataset.from_tensor_slices((tf.zeros((len(ids), 2)), tf.one_hot(ids, classes)))


def test_examples_of_each_class_are_counted() -> None:
    assert count_classes(split([0, 2, 2, 0, 2]), "train", "abc") == [2, 0, 3]


def test_a_label_outside_the_vocabulary_is_named_by_its_place() -> None:
    with pytest.raises(TrainingError, match="validation split has a label that the training split") as caught:
        count_classes(split([*[0] * 1500, -1, 1]), "validation", ["cat", "dog", "owl"])
    assert caught.value.place == "split validation, example 1500"
    assert "cat, dog, owl" in caught.value.remedy


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(TrainingError, match="The validation split is empty"):
        count_classes(split([0]).take(0), "validation", "abc")

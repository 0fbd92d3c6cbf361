"""Small text models and data for tests."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modules.hparams.text import TextHparams, TextModelHparams
from modules.text.model import Parts, Vocabulary
from tests.modules.text.test_tokens import hparams as inputs
from tests.modules.training.small import hparams as train

VOCABULARY = Vocabulary(25)
CLASSES = 3

MODEL: dict[str, Any] = {
    "name": "transformer",
    "width": 8,
    "dropout": 0.0,
    "token_dropout": 0.0,
    "filters": 6,
    "kernels": (2, 3),
    "layers": 2,
    "heads": 2,
    "feedforward": 12,
    "positions": "learned",
    "pooling": "mean",
    "weights": "none",
    "freeze": "none",
}


def hparams(train_changes: dict[str, Any] | None = None, **changes: Any) -> TextHparams:
    """A transformer of two blocks; every test changes what it is about."""
    model = TextModelHparams(**{**MODEL, **changes})
    kind = {"tokens": "ngrams", "buckets": 24} if model.name == "ngrams" else {"max_tokens": 16}
    return TextHparams(inputs(**kind), model, train(**(train_changes or {})))


def own_network(parts: Parts, outputs: int) -> keras.KerasTensor:
    """As a user writes one: a bag of embeddings with a hidden layer."""
    hidden = keras.layers.Dense(parts.hparams.filters, activation="relu")(parts.pooled(parts.embedded()))
    return keras.layers.Dense(outputs)(hidden)


def rows(examples: int = 48, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Ids of 3 to 12 tokens whose class is told by one of them, and one-hot labels."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, examples)
    texts = []
    for label in labels:
        text = random.integers(8, 25, random.integers(1, 10)).astype(np.float32)
        text[random.integers(len(text))] = 5 + label
        texts.append(np.concatenate([[2], text, [3]]).astype(np.float32))
    return texts, np.eye(CLASSES, dtype=np.float32)[labels]


def dataset(examples: int = 48, seed: int = 0) -> tf.data.Dataset:
    texts, labels = rows(examples, seed)
    return tf.data.Dataset.from_generator(
        lambda: zip(texts, labels, strict=True),
        output_signature=(tf.TensorSpec((None,), tf.float32), tf.TensorSpec((CLASSES,), tf.float32)),
    )

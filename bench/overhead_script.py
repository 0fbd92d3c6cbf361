"""The taxi-like chain as a plain script: pandas and Keras, no TFX.

    python -m bench.overhead_script ROWS.csv OUT EPOCHS

Reads the CSV, takes statistics, a vocabulary and z-scores, splits by hash,
trains the same network for the same number of steps, evaluates overall and per
slice, and saves a SavedModel that takes serialized Examples.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import pandas as pd
import tensorflow as tf

NUMBERS = ["fare", "trip_miles", "trip_start_hour"]
CATEGORIES = ["company", "payment_type", "pickup_area"]
LABEL = "label"
BATCH = 256
EMBEDDING, HIDDEN, DROPOUT = 8, (64, 32), 0.1


def split_of(frame: pd.DataFrame) -> np.ndarray:
    """0 to 9 by a hash of the row: 0 to 5 train, 6 and 7 validation, 8 and 9 test."""
    rows = frame.astype("string").fillna("").agg("|".join, axis=1)
    return np.array([hashlib.md5(row.encode()).digest()[0] % 10 for row in rows])


def build(sizes: list[int], mean: np.ndarray, deviation: np.ndarray) -> keras.Model:
    """z-scores and embeddings into two dense layers."""
    numbers = keras.Input((len(NUMBERS),))
    codes = keras.Input((len(CATEGORIES),), dtype="int32")
    parts = [keras.layers.Rescaling(1 / deviation, -mean / deviation)(numbers)]
    for place, size in enumerate(sizes):
        parts.append(keras.layers.Embedding(size, EMBEDDING)(codes[:, place]))
    x = keras.layers.Concatenate()(parts)
    for width in HIDDEN:
        x = keras.layers.Dropout(DROPOUT)(keras.layers.Dense(width, "relu")(x))
    return keras.Model([numbers, codes], keras.layers.Dense(2, "softmax")(x))


def main() -> None:
    source, out, epochs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    keras.utils.set_random_seed(17)
    frame = pd.read_csv(source, dtype=dict.fromkeys(CATEGORIES, "string"))
    out.mkdir(parents=True, exist_ok=True)
    frame.describe(include="all").to_csv(out / "statistics.csv")
    split = split_of(frame)
    train = frame[split < 6]
    numbers = frame[NUMBERS].fillna(train[NUMBERS].mean()).to_numpy(np.float32)
    mean, deviation = numbers[split < 6].mean(0), numbers[split < 6].std(0)
    vocabularies = [train[name].fillna("").value_counts().index.to_list() for name in CATEGORIES]
    codes = np.stack(
        [
            pd.Categorical(frame[name].fillna(""), words).codes + 1
            for name, words in zip(CATEGORIES, vocabularies, strict=True)
        ],
        axis=1,
    ).astype(np.int32)
    labels = frame[LABEL].to_numpy(np.int32)
    model = build([len(words) + 1 for words in vocabularies], mean, deviation)
    model.compile(keras.optimizers.AdamW(0.002), "sparse_categorical_crossentropy", metrics=["accuracy"])
    chosen, held = split < 6, (split >= 6) & (split < 8)
    model.fit(
        (numbers[chosen], codes[chosen]),
        labels[chosen],
        batch_size=BATCH,
        epochs=epochs,
        validation_data=((numbers[held], codes[held]), labels[held]),
        verbose=0,
    )
    test = split >= 8
    right = model.predict((numbers[test], codes[test]), BATCH, verbose=0).argmax(1) == labels[test]
    tested = frame[test].assign(right=right)
    by_slice = {name: tested.groupby(name)["right"].mean().to_dict() for name in (LABEL, "payment_type")}
    save(model, vocabularies, out / "model")
    result = {"accuracy": float(right.mean()), "slices": {k: len(v) for k, v in by_slice.items()}}
    print(json.dumps(result))


def save(model: keras.Model, vocabularies: list[list[str]], folder: Path) -> None:
    """A SavedModel whose signature parses Examples, as a server wants it."""
    tables = [
        tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(words, tf.range(1, len(words) + 1)), 0)
        for words in vocabularies
    ]
    spec = {name: tf.io.FixedLenFeature([], tf.float32, 0.0) for name in NUMBERS}
    spec |= {name: tf.io.FixedLenFeature([], tf.string, "") for name in CATEGORIES}
    module = tf.Module()
    module.model, module.tables = model, tables

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = tf.io.parse_example(examples, spec)
        numbers = tf.stack([parsed[name] for name in NUMBERS], axis=1)
        codes = tf.stack(
            [table.lookup(parsed[name]) for table, name in zip(tables, CATEGORIES, strict=True)], axis=1
        )
        return {"scores": model([numbers, codes])}

    tf.saved_model.save(module, str(folder), signatures={"serving_default": serve})


if __name__ == "__main__":
    main()

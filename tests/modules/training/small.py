"""Small models and data for tests of training, in this process or in one of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modules.hparams.train import CheckpointHparams, ScheduleHparams, TrainHparams
from modules.input_pipeline import TrainingStream
from modules.training import loop
from modules.training.session import Session, prepare

ROOT = Path(__file__).parents[3]
CLASSES = 3


def hparams(**changes: Any) -> TrainHparams:
    """Plain float32 training in a fixed order; every test changes what it is about."""
    values: dict[str, Any] = {
        "epochs": 2,
        "batch_size": 16,
        "learning_rate": 0.05,
        "optimizer": "sgd",
        "weight_decay": 0.0,
        "warmup_fraction": 0.0,
        "label_smoothing": 0.0,
        "clip": "none",
        "precision": "float32",
        "xla": "off",
        "strategy": "one_device",
        "schedule": ScheduleHparams(name="constant"),
        "checkpoint": CheckpointHparams(every_minutes=0.0),
        "tensorboard": False,
    }
    return TrainHparams(**{**values, **changes})


def data(examples: int = 64, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 6, 6, 2) float32 whose class can be learned, and class ids (N,) int32."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, examples).astype(np.int32)
    images = random.normal(size=(examples, 6, 6, 2)) + labels[:, None, None, None] * 0.5
    return images.astype(np.float32), labels


def stream(
    examples: int = 64, batch_size: int = 16, augment: Any = None
) -> tuple[TrainingStream, tf.data.Dataset]:
    """A training stream and a validation set of half its size."""
    images, labels = data(examples)
    dataset = tf.data.Dataset.from_tensor_slices((images, labels))
    validation = tf.data.Dataset.from_tensor_slices(data(max(examples // 2, 1), seed=1)).batch(batch_size)
    return TrainingStream(dataset, examples, batch_size, seed=3, augment=augment), validation


def model(*, norm: bool = False, dropout: float = 0.0) -> keras.Model:
    """A small convolutional classifier."""
    inputs = keras.Input((6, 6, 2))
    # A bias before normalisation has a gradient of nothing but rounding errors.
    x = keras.layers.Conv2D(4, 3, use_bias=not norm, name="conv")(inputs)
    if norm:
        x = keras.layers.BatchNormalization(name="norm")(x)
    x = keras.layers.Activation("relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    if dropout:
        x = keras.layers.Dropout(dropout)(x)
    return keras.Model(inputs, keras.layers.Dense(CLASSES, "softmax", dtype="float32", name="scores")(x))


def fit(
    changed: TrainHparams,
    *,
    norm: bool = False,
    dropout: float = 0.0,
    examples: int = 64,
    session: Session | None = None,
    build: Any = None,
    **arguments: Any,
) -> tuple[keras.Model, loop.FitReport]:
    """Trains the small model from the same first weights."""
    session = session or prepare(changed)
    keras.utils.set_random_seed(5)
    with session.scope():
        made = build() if build else model(norm=norm, dropout=dropout)
    batches, validation = stream(examples, changed.batch_size)
    arguments.setdefault("echo", lambda line: None)
    return made, loop.fit(made, batches, validation, session, **arguments)


def weights(trained: keras.Model) -> list[np.ndarray]:
    """Copies of the trainable weights."""
    return [variable.numpy().copy() for variable in trained.trainable_variables]


def difference(one: list[np.ndarray], other: list[np.ndarray]) -> float:
    """The largest absolute difference of any two elements."""
    return max(float(np.max(np.abs(a - b))) for a, b in zip(one, other, strict=True))


def start(function: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Calls `function(*arguments)` of `tests.modules.training.children` in a new process."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.modules.training.children", function, json.dumps(arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def result(process: subprocess.Popen[str], timeout_s: float = 900.0) -> Any:
    """Waits for a child that must end well, and returns what its function returned."""
    out, err = process.communicate(timeout=timeout_s)
    assert process.returncode == 0, err[-4000:]
    return json.loads(out.strip().splitlines()[-1])

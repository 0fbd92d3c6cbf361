"""Steady examples a second of training, against plain Keras `fit`.

    python -m bench.training [--quick]

Two models, a small residual network on 32 x 32 images and a four-layer
transformer on 64 tokens, each with the same data, optimizer and clipping on
both sides. `ours` is what the settings' defaults choose on this machine; the
other rows show single settings. Runs unchanged on a GPU, where none of the
published figures was measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from bench import common
from modules.hparams.train import ScheduleHparams, TrainHparams
from modules.input_pipeline import TrainingStream
from modules.training import (
    assembly,
    fused_activations,
    fused_norm,
    optimizers,
    precision,
    precision_trial,
)
from modules.training.session import Session, prepare
from modules.training.steps import TrainSteps

GOAL = ">= 1.5"
BATCH = 64
CLASSES = 10
_LONG = 100_000
"""Steps of a training that is worth choosing for."""


@dataclass(frozen=True)
class Task:
    """A model with its data; `batches` of `BATCH` are one round."""

    name: str
    build: Callable[[], keras.Model]
    features: np.ndarray
    labels: np.ndarray

    @property
    def batches(self) -> int:
        return len(self.labels) // BATCH


def resnet() -> keras.Model:
    """Pre-activation residual network of 14 layers (He et al., 2016), 32 x 32 x 3 inputs."""
    layers = keras.layers
    inputs = keras.Input((32, 32, 3))
    x = layers.Conv2D(16, 3, padding="same", use_bias=False)(inputs)
    for stage, width in enumerate((16, 32, 64)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = layers.ReLU()(layers.BatchNormalization()(x))
            widens = stride > 1 or x.shape[-1] != width
            shortcut = layers.Conv2D(width, 1, strides=stride, use_bias=False)(y) if widens else x
            y = layers.Conv2D(width, 3, strides=stride, padding="same", use_bias=False)(y)
            y = layers.ReLU()(layers.BatchNormalization()(y))
            y = layers.Conv2D(width, 3, padding="same", use_bias=False)(y)
            x = layers.Add()([shortcut, y])
    x = layers.GlobalAveragePooling2D()(layers.ReLU()(layers.BatchNormalization()(x)))
    return keras.Model(inputs, layers.Dense(CLASSES, "softmax", dtype="float32")(x))


def transformer() -> keras.Model:
    """Pre-norm encoder: four layers, width 128, four heads, 64 tokens of 5,000."""
    layers = keras.layers
    inputs = keras.Input((64,), dtype="int32")
    x = layers.Embedding(5000, 128)(inputs)
    x = x + layers.Embedding(64, 128)(keras.ops.arange(64))
    for _ in range(4):
        y = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, 32)(y, y)
        y = layers.Dense(512, activation="gelu")(layers.LayerNormalization()(x))
        x = x + layers.Dense(128)(y)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Dense(CLASSES, "softmax", dtype="float32")(x))


def tasks(batches: int) -> list[Task]:
    random = np.random.default_rng(0)
    count = batches * BATCH
    labels = random.integers(0, CLASSES, count).astype(np.int32)
    images = random.random((count, 32, 32, 3), np.float32)
    tokens = random.integers(0, 5000, (count, 64)).astype(np.int32)
    return [Task("image", resnet, images, labels), Task("text", transformer, tokens, labels)]


def settings(**changes: object) -> TrainHparams:
    values = {
        "batch_size": BATCH,
        "epochs": 1_000_000,
        "warmup_fraction": 0.0,
        "label_smoothing": 0.0,
        "schedule": ScheduleHparams(name="constant"),
        "strategy": "one_device",
    }
    return TrainHparams(**{**values, **changes})


def keras_fit(task: Task) -> common.Measure:
    """Plain `compile` and `fit`, on a shuffled and prefetched data set."""
    keras.utils.set_random_seed(0)
    model = task.build()
    plain = settings()
    optimizer = keras.optimizers.AdamW(
        plain.learning_rate, weight_decay=plain.weight_decay, global_clipnorm=plain.clip_at
    )
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    dataset = tf.data.Dataset.from_tensor_slices((task.features, task.labels))
    dataset = dataset.shuffle(len(task.labels), seed=0).batch(BATCH).prefetch(tf.data.AUTOTUNE)

    def measure() -> float:
        began = time.perf_counter()
        model.fit(dataset, verbose=0)
        return len(task.labels) / (time.perf_counter() - began)

    measure()
    return measure


def ours(
    task: Task, session: Session, *, jit: bool, policy: str | None = None, stack: contextlib.ExitStack
) -> common.Measure:
    """Our training steps, in one call of the runtime a round, as the loop makes them."""
    keras.utils.set_random_seed(0)
    if policy is not None:
        session = replace(session, precision=precision.PrecisionChoice(policy, "benchmark"))
    with session.scope():
        model = task.build()
    hparams = session.hparams
    with session.placement.strategy.scope() if session.placement.distributed else contextlib.nullcontext():
        optimizer = optimizers.build(hparams, model)
        steps = TrainSteps(model, optimizer, assembly.step_plan(model, session, None, task.batches))
    dataset = tf.data.Dataset.from_tensor_slices((task.features, task.labels))
    stream = TrainingStream(dataset, len(task.labels), BATCH, seed=0)
    iterator = iter(stream.batches(epoch=0, step=0, epochs=hparams.epochs))
    stack.enter_context(fused_norm.fused(model, enabled=hparams.fused_normalization))

    def measure() -> float:
        began = time.perf_counter()
        steps.run(iterator, task.batches, jit=jit)
        return len(task.labels) / (time.perf_counter() - began)

    # Tracing is what it is for; `fit` must see nothing of it.
    with fused_activations.fused(enabled=hparams.fused_activations):
        measure()
    return measure


def compare(task: Task, rounds: int, *, quick: bool) -> list[common.Figure]:
    """All variants of one model in interleaved rounds."""
    with contextlib.ExitStack() as stack:
        session = precision_trial.settle(
            prepare(settings()), task.build, tf.constant(task.features[:BATCH]), _LONG
        )
        measures = {"fit": keras_fit(task)}
        for jit in (False, True):
            measures[f"auto{'_xla' * jit}"] = ours(task, session, jit=jit, stack=stack)
        if not quick:
            for jit in (False, True):
                name = "float32_xla" if jit else "float32"
                measures[name] = ours(task, session, jit=jit, policy=precision.FLOAT32, stack=stack)
            four = replace(session, hparams=settings(accumulate_steps=4))
            measures["accumulate_4"] = ours(task, four, jit=False, stack=stack)
        chosen = _faster(measures["auto"], measures["auto_xla"])
        rates = common.interleaved(rounds, measures)
    print(f"{task.name}: {session.precision.policy} ({session.precision.reason}); XLA {chosen == 'auto_xla'}")
    figures = [
        common.Figure.of(
            f"train_{task.name}_vs_keras_fit", rates[chosen], rates["fit"], unit="examples/s", goal=GOAL
        )
    ]
    for name, values in rates.items():
        if name != "fit":
            figures.append(
                common.Figure.of(f"train_{task.name}_{name}", values, rates["fit"], unit="examples/s")
            )
    return figures


def _faster(plain: common.Measure, compiled: common.Measure) -> str:
    """What `xla: auto` does: both in turns, before anything is counted."""
    rates = common.interleaved(3, {"auto": plain, "auto_xla": compiled})
    ratios = sorted(b / a for a, b in zip(rates["auto"], rates["auto_xla"], strict=True))
    return "auto_xla" if ratios[1] >= 1.05 else "auto"


def two_devices(task_name: str, batches: int, rounds: int) -> None:
    """Prints the rates of `fit` and of two logical CPU devices; run in a process of its own."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    task = next(task for task in tasks(batches) if task.name == task_name)
    with contextlib.ExitStack() as stack:
        session = prepare(settings(strategy="mirrored"))
        measures = {"fit": keras_fit(task), "ours": ours(task, session, jit=False, stack=stack)}
        print(json.dumps(common.interleaved(rounds, measures)))


def _two_devices(task: Task, rounds: int) -> common.Figure:
    arguments = ["--two-devices", task.name, str(task.batches), str(rounds)]
    command = [sys.executable, "-m", "bench.training", *arguments]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rates = json.loads(out.strip().splitlines()[-1])
    return common.Figure.of(f"train_{task.name}_two_devices", rates["ours"], rates["fit"], unit="examples/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and the defaults only")
    parser.add_argument("--two-devices", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.two_devices:
        name, batches, rounds = arguments.two_devices
        two_devices(name, int(batches), int(rounds))
        return
    facts = common.machine()
    figures = []
    rounds = 3 if arguments.quick else 9
    for task in tasks(batches=8):
        figures += compare(task, rounds, quick=arguments.quick)
        if not arguments.quick:
            figures.append(_two_devices(task, rounds))
    common.report("training", figures, facts)


if __name__ == "__main__":
    main()

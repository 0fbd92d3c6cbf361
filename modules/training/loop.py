"""Fits a Keras model and reports what came of it.

report = fit(model, train, validation, hparams.train, steps_per_epoch=17)
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import keras
import tensorflow as tf

from modules.hparams import TrainHparams


@dataclass(frozen=True)
class FitReport:
    """What a training run did; `history` is metric name -> value per epoch."""

    history: dict[str, list[float]]
    epochs: int
    best_epoch: int
    seconds: float
    examples_per_second: float
    parameters: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def fit(
    model: keras.Model,
    train: tf.data.Dataset,
    validation: tf.data.Dataset,
    hparams: TrainHparams,
    *,
    train_examples: int,
) -> FitReport:
    """Trains to the end or until the validation loss stops falling.

    The weights of the epoch with the lowest validation loss are restored.

    Args:
        model: takes images, returns probabilities.
        train: batches of (images, class ids).
        validation: batches of (images, class ids).
        hparams: rates, epochs and patience.
        train_examples: examples in one epoch.
    """
    steps_per_epoch = -(-train_examples // hparams.batch_size)
    model.compile(
        optimizer=keras.optimizers.AdamW(
            _schedule(hparams, steps_per_epoch), weight_decay=hparams.weight_decay, clipnorm=1.0
        ),
        loss=_loss(hparams),
        metrics=[keras.metrics.CategoricalAccuracy(name="accuracy")],
    )
    stopping = keras.callbacks.EarlyStopping(
        monitor="val_loss", patience=hparams.early_stopping_patience, restore_best_weights=True
    )
    began = time.monotonic()
    history = model.fit(
        train,
        validation_data=validation,
        epochs=hparams.epochs,
        callbacks=[stopping, keras.callbacks.TerminateOnNaN()],
        verbose=2,
    ).history
    seconds = time.monotonic() - began
    epochs = len(history["loss"])
    return FitReport(
        history={name: [float(value) for value in values] for name, values in history.items()},
        epochs=epochs,
        best_epoch=int(stopping.best_epoch) + 1,
        seconds=round(seconds, 3),
        examples_per_second=round(train_examples * epochs / seconds, 1),
        parameters=model.count_params(),
    )


def _schedule(hparams: TrainHparams, steps_per_epoch: int) -> keras.optimizers.schedules.LearningRateSchedule:
    """Linear warm-up, then a cosine to zero over the planned epochs."""
    total = hparams.epochs * steps_per_epoch
    warmup = int(total * hparams.warmup_fraction)
    return keras.optimizers.schedules.CosineDecay(
        0.0 if warmup else hparams.learning_rate,
        decay_steps=max(total - warmup, 1),
        warmup_target=hparams.learning_rate if warmup else None,
        warmup_steps=warmup,
    )


def _loss(hparams: TrainHparams) -> keras.losses.Loss:
    return keras.losses.CategoricalCrossentropy(label_smoothing=hparams.label_smoothing)

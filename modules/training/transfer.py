"""Training in stages: the head on a resting backbone, then more and more of it.

    report = fit(model, stages, stream, validation, session, store=store)

Each stage begins where the best epoch of the one before stands, with a
learning rate and schedule of its own. Where the whole backbone rests, its
features are computed once, of unchanged images, and the head alone is trained
on them: an epoch then takes as long as a linear model's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modules.input_pipeline import TrainingStream
from modules.training import freezing, loop
from modules.training.checkpoints import CheckpointStore
from modules.training.extensions import Extension
from modules.training.report import FitReport
from modules.training.session import Session

_FEATURE_BATCH = 64


@dataclass(frozen=True)
class Stage:
    """One part of a training.

    Attributes:
        freeze: as `freezing.apply` takes it.
        epochs: at most.
        learning_rate: peak.
        train_norms: as `freezing.apply` takes it.
        cache_features: whether a resting backbone is computed once.
    """

    freeze: freezing.Freeze
    epochs: int
    learning_rate: float
    train_norms: bool
    cache_features: bool = True

    @property
    def on_features(self) -> bool:
        return self.freeze == "all" and self.cache_features


def fit(
    model: keras.Model,
    stages: Sequence[Stage],
    stream: TrainingStream,
    validation: tf.data.Dataset,
    session: Session,
    *,
    store: CheckpointStore | None = None,
    extensions: Sequence[Extension] = (),
    echo: Callable[[str], None] = print,
    **others: Any,
) -> FitReport:
    """Trains stage by stage.

    Args:
        model: built inside `session.scope()`.
        stages: in order; without any, the whole model is trained in one part.
        stream: as `loop.fit` takes it.
        validation: as `loop.fit` takes it.
        session: its epochs and learning rate are replaced by each stage's.
        store: of checkpoints; a killed training goes on in the stage it was in.
        extensions: as `loop.fit` takes them; of the last stage.
        echo: takes progress lines.
        others: as `loop.fit` takes them.

    Raises:
        TrainingError, Terminated: what `loop.fit` raises, or `freezing.apply`.
    """
    if not stages:
        return loop.fit(
            model, stream, validation, session, store=store, extensions=extensions, echo=echo, **others
        )
    stores = [store.part(f"stage-{index}") if store else None for index in range(len(stages))]
    reports: list[tuple[Stage, FitReport]] = []
    for index in range(_first(stores, session), len(stages)):
        stage = stages[index]
        freezing.apply(model, stage.freeze, train_norms=stage.train_norms)
        echo(f"Stage {index + 1} of {len(stages)}: {_describe(model, stage)}")
        given = extensions if index == len(stages) - 1 else ()
        # What is added to the whole model's steps cannot be added to those of its head.
        part = _on_features if stage.on_features and not given else loop.fit
        hparams = replace(session.hparams, epochs=stage.epochs, learning_rate=stage.learning_rate)
        own = replace(session, hparams=hparams)
        told = {**others, "store": stores[index], "echo": echo, "extensions": given}
        reports.append((stage, part(model, stream, validation, own, **told)))
    freezing.apply(model, "none")
    return _together(reports)


def _first(stores: Sequence[CheckpointStore | None], session: Session) -> int:
    """The last stage that has a checkpoint to go on from; else the first stage."""
    if not session.hparams.checkpoint.resume:
        return 0
    begun = [index for index, store in enumerate(stores) if store is not None and store.latest() is not None]
    return max(begun, default=0)


def _describe(model: keras.Model, stage: Stage) -> str:
    numbers = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    how = " on features computed once" if stage.on_features else ""
    return f"{numbers:,} of {model.count_params():,} weights are trained{how}"


def _on_features(
    model: keras.Model,
    stream: TrainingStream,
    validation: tf.data.Dataset,
    session: Session,
    **others: Any,
) -> FitReport:
    with session.scope():
        backbone, head = freezing.cut(model)
    unchanged = stream.dataset if stream.unchanged is None else stream.unchanged
    features = _features(backbone, unchanged.batch(_FEATURE_BATCH))
    held_out = _features(backbone, validation)
    replaced = replace(stream, dataset=features, augment=None, each=None, unchanged=None)
    batches = held_out.batch(stream.batch_size)
    return loop.fit(head, replaced, batches, session, **others)


def _features(backbone: keras.Model, batches: tf.data.Dataset) -> tf.data.Dataset:
    """Single (features, label) pairs, computed now: (D,) float32 each, kept in memory."""
    spec = batches.element_spec[0]
    any_rows = tf.TensorSpec((None, *spec.shape[1:]), spec.dtype)
    compute = tf.function(lambda images: backbone(images, training=False), input_signature=[any_rows])
    pairs = [(np.asarray(compute(images), np.float32), np.asarray(labels)) for images, labels in batches]
    features, labels = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    return tf.data.Dataset.from_tensor_slices((features, labels))


def _together(reports: Sequence[tuple[Stage, FitReport]]) -> FitReport:
    """One report; epochs are counted through."""
    last = reports[-1][1]
    before = [report for _, report in reports[:-1]]
    history = {
        name: [value for _, report in reports for value in report.history.get(name, [])]
        for name in last.history
    }
    told = [
        {
            "freeze": stage.freeze,
            "epochs": report.epochs,
            "best_epoch": report.best_epoch,
            "seconds": report.seconds,
            "examples_per_second": report.examples_per_second,
        }
        for stage, report in reports
    ]
    return replace(
        last,
        history=history,
        epochs=sum(report.epochs for _, report in reports),
        best_epoch=sum(report.epochs for report in before) + last.best_epoch,
        steps=sum(report.steps for _, report in reports),
        seconds=round(sum(report.seconds for _, report in reports), 3),
        skipped_steps=sum(report.skipped_steps for _, report in reports),
        resumed_from_step=reports[0][1].resumed_from_step,
        choices={**last.choices, "stages": told},
    )

"""Puts together what the loop needs from hyperparameters and session.

plan = step_plan(model, session, class_counts, steps_per_epoch)
"""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from modules.errors import TrainingError
from modules.training import losses, metrics, schedules
from modules.training.averaging import WeightAverage
from modules.training.extensions import NONE, Extensions
from modules.training.precision import FLOAT16, LossScale
from modules.training.session import Session
from modules.training.steps import StepPlan


def step_plan(
    model: keras.Model,
    session: Session,
    class_counts: Sequence[int] | None,
    steps_per_epoch: int,
    extensions: Extensions = NONE,
) -> StepPlan:
    hparams, placement = session.hparams, session.placement
    weights = None
    if hparams.class_weights == "balanced" and class_counts is not None:
        weights = losses.balanced_weights(class_counts)
    return StepPlan(
        strategy=placement.strategy,
        loss=extensions.loss(losses.build(hparams, weights)),
        metrics=extensions.metrics(metrics.for_loss(hparams.loss)),
        schedule=schedules.build(hparams, steps_per_epoch),
        batch_size=hparams.batch_size,
        micro_batches=hparams.accumulate_steps,
        clip=hparams.clip,
        clip_at=hparams.clip_at,
        loss_scale=LossScale() if session.precision.policy == FLOAT16 else None,
        average=WeightAverage(model.trainable_variables, hparams.ema_momentum)
        if hparams.ema_momentum
        else None,
        distributed=placement.distributed,
        synchronized=synchronize(model, session),
        timed=not hparams.deterministic,
        extensions=extensions,
    )


def synchronize(model: keras.Model, session: Session) -> bool:
    """Lets batch normalisation look across replicas where that is asked for; whether it does."""
    hparams = session.hparams
    if not hparams.sync_batch_norm or session.placement.replicas == 1:
        return False
    if hparams.xla in ("on", "autocluster"):
        raise TrainingError(
            "Synchronised batch normalisation cannot be compiled with XLA",
            place="train.sync_batch_norm, train.xla",
            remedy="Set train.xla: off, or train.sync_batch_norm: false.",
        )
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.synchronized = True
    return True


def hooks(
    callbacks: list[keras.callbacks.Callback],
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    epochs: int,
    steps: int,
) -> keras.callbacks.CallbackList:
    model.stop_training = False
    if callbacks:
        # Callbacks look for it there, as after `compile`.
        model.optimizer = optimizer
    return keras.callbacks.CallbackList(callbacks, model=model, epochs=epochs, steps=steps, verbose=0)


@tf.function(autograph=False)
def any_worker(strategy: tf.distribute.Strategy, flag: tf.Tensor) -> tf.Tensor:
    def replica(value: tf.Tensor) -> tf.Tensor:
        # An argument of the graph has no device yet, which the reduction needs.
        here = tf.identity(value)
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, here)

    return strategy.experimental_local_results(strategy.run(replica, args=(flag,)))[0]

"""Whether 16 bits pay for the very model that is to be trained.

    session = settle(session, build, inputs, steps=10_000)

Single operations do not tell: casts, small kernels and depthwise convolutions
made a network 1.7 times slower on a processor whose bfloat16 convolutions and
products are faster than its float32 ones. So where the device leaves it open, the model's gradients are
timed both ways, in turns, unless the training is too short to win that back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import keras
import tensorflow as tf

from modules.hparams.train import TrainHparams
from modules.training import fused_activations, fused_norm, precision, seeds
from modules.training.precision import BFLOAT16, FLOAT32, PrecisionChoice
from modules.training.session import Session

_ROUNDS = 15
_LONGEST_S = 6.0
# 16 bits cost a little accuracy, and what is timed here leaves out the optimizer.
_WORTH_IT = 1.1
_HOPED_SAVING = 0.3
# Making, tracing and timing the second model takes as long as the first, and somewhat more.
_COST_OF_SECOND = 1.5
# A small step takes 5 ms: with luck so many take a second and a half less, which making two models costs.
_FEW_SMALL_STEPS = 1000
TOO_SHORT = "too short a training to win back trying bfloat16"


def settle(session: Session, build: Callable[[], keras.Model], inputs: tf.Tensor, steps: int) -> Session:
    """The session, with its precision decided.

    Call before the model is made; seeds are set anew behind it, and names begin anew.

    Args:
        session: of `prepare`.
        build: makes the model, (B, ...) to (B, C) float32 or (B,) float32.
        inputs: a batch as the model takes it in training.
        steps: of the whole training.
    """
    if not session.precision.tentative:
        return session
    if session.small and steps < _FEW_SMALL_STEPS:
        return replace(session, precision=PrecisionChoice(FLOAT32, TOO_SHORT))
    before = session.precision
    if not before.probed:
        before = precision.choose(session.hparams.precision, deterministic=False)
    choice = _tried(before, build, inputs, steps, session.hparams) if before.tentative else before
    keras.utils.clear_session(free_memory=False)
    seeds.set_all(session.hparams.seed, deterministic=session.hparams.deterministic)
    return replace(session, precision=choice)


def _tried(
    before: PrecisionChoice,
    build: Callable[[], keras.Model],
    inputs: tf.Tensor,
    steps: int,
    hparams: TrainHparams,
) -> PrecisionChoice:
    began = time.perf_counter()
    plain = _gradients(FLOAT32, build, inputs, hparams)
    cost_s = time.perf_counter() - began
    plain_s = _seconds(plain)
    if steps * plain_s * _HOPED_SAVING < cost_s * _COST_OF_SECOND:
        return PrecisionChoice(FLOAT32, TOO_SHORT)
    best = _best_of_turns([plain, _gradients(BFLOAT16, build, inputs, hparams)])
    policy = BFLOAT16 if best[0] >= _WORTH_IT * best[1] else FLOAT32
    return PrecisionChoice(
        policy,
        f"{before.reason}; this model's gradients: float32 {1000 * best[0]:.1f} ms, "
        f"bfloat16 {1000 * best[1]:.1f} ms",
    )


def _gradients(
    policy: str, build: Callable[[], keras.Model], inputs: tf.Tensor, hparams: TrainHparams
) -> Callable[[], tf.Tensor]:
    """A model's forward and backward pass in the forms that the loop uses, traced and run once."""
    with precision.policy(policy):
        model = build()

    @tf.function(autograph=False)
    def run() -> tf.Tensor:
        with tf.GradientTape() as tape:
            outputs = tf.cast(model(inputs, training=True), tf.float32)
            loss = tf.reduce_mean(tf.square(outputs))
        grads = tape.gradient(loss, model.trainable_variables)
        dense = [tf.convert_to_tensor(grad) for grad in grads if grad is not None]
        return loss + tf.add_n([tf.reduce_sum(tf.cast(grad, tf.float32)) for grad in dense])

    with (
        fused_norm.fused(model, enabled=hparams.fused_normalization),
        fused_activations.fused(enabled=hparams.fused_activations),
    ):
        run()
    return run


def _seconds(run: Callable[[], tf.Tensor]) -> float:
    began = time.perf_counter()
    run().numpy()
    return time.perf_counter() - began


def _best_of_turns(runs: list[Callable[[], tf.Tensor]]) -> list[float]:
    """Best seconds of each, run in turns: what other processes disturb least."""
    best = [float("inf")] * len(runs)
    began = time.perf_counter()
    for _ in range(_ROUNDS):
        for index, run in enumerate(runs):
            best[index] = min(best[index], _seconds(run))
        if time.perf_counter() - began > _LONGEST_S:
            break
    return best

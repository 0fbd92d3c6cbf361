"""Which numbers the model computes in, and loss scaling for float16.

    choice = choose("auto", deterministic=False)
    with policy(choice.policy):
        model = build()

16-bit policies keep variables, losses and metrics in float32 (Micikevicius et
al., 2018, arXiv:1710.03740).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import keras
import tensorflow as tf

from modules.training import devices

FLOAT32, FLOAT16, BFLOAT16 = "float32", "mixed_float16", "mixed_bfloat16"

# Without real bf16 units these operations fall far below it.
_WORTH_IT = 1.15
# Of many short rounds the best is undisturbed even on a busy machine.
_PROBE_ROUNDS = 25


@dataclass(frozen=True)
class PrecisionChoice:
    """A Keras dtype policy, and why it was taken.

    Attributes:
        policy: its name.
        reason: why.
        tentative: whether the model itself has the last word.
        probed: whether the device was asked what it is good at, where that decides.
    """

    policy: str
    reason: str
    tentative: bool = False
    probed: bool = True


def choose(wanted: str, *, deterministic: bool, probe: bool = True) -> PrecisionChoice:
    """The policy for `wanted`: itself, or for `auto` what the device is good at.

    On a processor with bfloat16 units `auto` times a convolution and a matrix
    product both ways, since units alone do not mean speed. Where both gain, the
    choice is still tentative: see `precision_trial`. A deterministic run
    decides nothing by timing and takes float32 there. Without `probe` the
    operations are left for `precision_trial` to time.
    """
    if wanted != "auto":
        return PrecisionChoice(wanted, "set by train.precision")
    if devices.has_tpu():
        return PrecisionChoice(BFLOAT16, "TPUs multiply in bfloat16")
    capability = devices.gpu_compute_capability()
    if capability is not None:
        return for_gpu(capability)
    return _for_cpu(devices.cpu_bfloat16_units(), deterministic=deterministic, probe=probe)


def for_gpu(capability: tuple[int, int]) -> PrecisionChoice:
    """bfloat16 from Ampere (8.0), float16 on older tensor cores (7.0), else float32."""
    version = f"GPU of compute capability {capability[0]}.{capability[1]}"
    if capability >= (8, 0):
        return PrecisionChoice(BFLOAT16, f"{version} has bfloat16 tensor cores")
    if capability >= (7, 0):
        return PrecisionChoice(FLOAT16, f"{version} has float16 tensor cores")
    return PrecisionChoice(FLOAT32, f"{version} has no tensor cores")


def _for_cpu(units: Sequence[str], *, deterministic: bool, probe: bool) -> PrecisionChoice:
    if not units:
        return PrecisionChoice(FLOAT32, "the processor has no bfloat16 units")
    if deterministic:
        return PrecisionChoice(FLOAT32, "train.deterministic: nothing is chosen by timing")
    if not probe:
        return PrecisionChoice(FLOAT32, ", ".join(units), tentative=True, probed=False)
    gains = {name: _gain(operation) for name, operation in _PROBES.items()}
    measured = ", ".join(f"{name} {gain:.2f} times" for name, gain in gains.items())
    gained = min(gains.values()) >= _WORTH_IT
    return PrecisionChoice(
        BFLOAT16 if gained else FLOAT32,
        f"{', '.join(units)}; speed of bfloat16 against float32: {measured}",
        tentative=gained,
    )


def _convolution(dtype: tf.DType) -> Callable[[], tf.Tensor]:
    return _forward_and_backward(
        (16, 16, 16, 64), (3, 3, 64, 64), dtype, lambda x, w: tf.nn.conv2d(x, w, 1, "SAME")
    )


def _product(dtype: tf.DType) -> Callable[[], tf.Tensor]:
    return _forward_and_backward((2048, 256), (256, 256), dtype, tf.matmul)


_PROBES = {"convolution": _convolution, "matrix product": _product}


def _forward_and_backward(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    dtype: tf.DType,
    operation: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
) -> Callable[[], tf.Tensor]:
    """An operation with its gradients, casts included, as a layer of that policy runs it."""
    x, w = tf.ones(x_shape), tf.ones(w_shape)

    @tf.function(autograph=False)
    def run() -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.cast(operation(tf.cast(x, dtype), tf.cast(w, dtype)), tf.float32)
        grads = tape.gradient(y, [x, w])
        return tf.add_n([tf.reduce_sum(grad) for grad in grads])

    return run


def _gain(operation: Callable[[tf.DType], Callable[[], tf.Tensor]]) -> float:
    """Best float32 time over best bfloat16 time; the best is what other processes disturb least."""
    runs = [operation(dtype) for dtype in (tf.float32, tf.bfloat16)]
    best = [float("inf"), float("inf")]
    for _ in range(_PROBE_ROUNDS + 1):  # the first round traces, and is never the best
        for index, run in enumerate(runs):
            began = time.perf_counter()
            run().numpy()
            best[index] = min(best[index], time.perf_counter() - began)
    return best[0] / best[1]


@contextlib.contextmanager
def policy(name: str) -> Iterator[None]:
    """Layers made inside compute by this policy."""
    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.mixed_precision.set_dtype_policy(before)


class LossScale:
    """Dynamic loss scaling: halves on overflow, doubles after enough good steps.

    `scale` and `good_steps` belong in a checkpoint. Call `update` once a step,
    outside of the replicas.
    """

    def __init__(self, initial: float = 2.0**15, growth_steps: int = 2000) -> None:
        """Starts at `initial`, a power of two, so that scaling itself loses no bit."""
        self.scale = tf.Variable(initial, trainable=False, name="loss_scale")
        self.good_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="loss_scale_good_steps")
        self._growth_steps = growth_steps

    @property
    def variables(self) -> list[tf.Variable]:
        return [self.scale, self.good_steps]

    def update(self, finite: tf.Tensor) -> None:
        """Moves the scale after a step whose gradients were finite or not (() bool)."""
        good = tf.where(finite, self.good_steps + 1, 0)
        grow = good >= self._growth_steps
        grown = tf.where(grow, self.scale * 2.0, self.scale)
        # Below 1 nothing is won: then the loss itself is not finite.
        shrunk = tf.maximum(self.scale * 0.5, 1.0)
        self.scale.assign(tf.where(finite, grown, shrunk))
        self.good_steps.assign(tf.where(grow, tf.zeros_like(good), good))

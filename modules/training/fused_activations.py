"""Activations in one pass forward and one backward while training on a processor.

    with fused():
        ...      # trace and run training steps

TensorFlow computes GELU and its like as a chain of element-wise operations,
each of which reads and writes the whole activation, and their gradients as a
longer one. XLA makes each of the two chains one loop, while convolutions and
products stay with TensorFlow's faster kernels: a step that is compiled as a
whole gives those up. In 16 bits the loop computes in float32 and rounds once.

Only the functions behind Keras's activations (of Keras 3.15) are replaced, and
put back afterwards; a model that is traced elsewhere (to be served) has none of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow import nn

from modules.training import devices

_NAMES = ("gelu", "silu", "hard_silu")

# XLA compiles for each shape, about 0.1 s; a pass over this many elements saves half a millisecond.
LEAST_ELEMENTS = 1 << 17

Activation = Callable[..., tf.Tensor]


@contextlib.contextmanager
def fused(*, enabled: bool = True) -> Iterator[None]:
    """Keras's activations use the fast forms inside, where the device is a processor."""
    wanted = enabled and devices.describe()["device"] == "CPU"
    before = {name: getattr(nn, name) for name in _NAMES} if wanted else {}
    for name, plain in before.items():
        setattr(nn, name, _fast(plain))
    try:
        yield
    finally:
        for name, plain in before.items():
            setattr(nn, name, plain)


def _fast(plain: Activation) -> Activation:
    def activation(x: Any, *options: Any, **named: Any) -> tf.Tensor:
        x = tf.convert_to_tensor(x)
        if x.dtype not in (tf.float32, tf.bfloat16, tf.float16):
            return plain(x, *options, **named)
        return _differentiable(plain, x.dtype, options, tuple(sorted(named.items())))(x)

    return activation


@lru_cache(maxsize=64)
def _differentiable(
    plain: Activation, dtype: tf.DType, options: tuple[Any, ...], named: tuple[tuple[str, Any], ...]
) -> Callable[[tf.Tensor], tf.Tensor]:
    def forward(x: tf.Tensor) -> tf.Tensor:
        return tf.cast(plain(tf.cast(x, tf.float32), *options, **dict(named)), dtype)

    def backward(x: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = forward(x)
        return tape.gradient(y, x, output_gradients=upstream)

    compiled = [
        # Of any shape, so that all layers share one function, and XLA's code for it.
        tf.function(function, input_signature=[tf.TensorSpec(None, dtype)] * arity, **_COMPILED)
        for function, arity in ((forward, 1), (backward, 2))
    ]

    @tf.custom_gradient
    def activation(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return _by_size(x, compiled[1], backward, x, upstream)

        return _by_size(x, compiled[0], forward, x), gradient

    return activation


_COMPILED: dict[str, Any] = {"jit_compile": True, "autograph": False}


def _by_size(x: tf.Tensor, large: Activation, small: Activation, *arguments: tf.Tensor) -> tf.Tensor:
    """An element-wise function of x's shape: one form where x is large, another where it is small."""
    elements = x.shape.num_elements()
    if elements is not None:
        result = large(*arguments) if elements >= LEAST_ELEMENTS else small(*arguments)
    else:
        result = tf.cond(tf.size(x) >= LEAST_ELEMENTS, lambda: large(*arguments), lambda: small(*arguments))
    return tf.ensure_shape(result, x.shape)

"""Quantization-aware training: layers compute with int8 numbers while they learn.

    aware = QuantizeAware(model, hparams.quantize_aware, epochs=30)
    loop.fit(..., extensions=[aware.extension])

In dense layers and convolutions, kernels are rounded to 255 levels per output
channel and inputs to 256 levels between moving minima and maxima, as int8
kernels do (Jacob et al., 2017, arXiv:1712.05877); gradients pass through the
rounding (straight-through, Bengio et al., 2013, arXiv:1308.3432). Only the
layers' calls change, and only while training: what is exported are float32
weights that lose little when the rewriter quantizes them.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from modules.errors import TrainingError
from modules.hparams.train import QuantizeAwareHparams
from modules.training.extensions import Extension
from modules.training.layer_calls import replaced

_KERNEL_NAMES = ("kernel", "depthwise_kernel", "pointwise_kernel")
_LAYERS = (
    keras.layers.Dense,
    keras.layers.EinsumDense,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.DepthwiseConv2D,
    keras.layers.SeparableConv1D,
    keras.layers.SeparableConv2D,
)
_KERNEL_LEVELS = 127.0
_INPUT_LEVELS = 255.0


def layers(model: keras.Model) -> list[keras.Layer]:
    """The dense layers and convolutions of a model."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, _LAYERS) and layer.built]


def fake_kernel(kernel: tf.Tensor, *, axes: Sequence[int]) -> tf.Tensor:
    """Rounds to -127..127 times a scale of its own for each channel; gradients pass.

    Args:
        kernel: float32.
        axes: over which one scale holds.
    """
    largest = tf.reduce_max(tf.abs(kernel), axis=list(axes), keepdims=True)
    scale = tf.stop_gradient(tf.maximum(largest, 1e-8) / _KERNEL_LEVELS)
    rounded = tf.round(kernel / scale) * scale
    return kernel + tf.stop_gradient(rounded - kernel)


def fake_input(values: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> tf.Tensor:
    """Rounds to 256 levels from low to high, of which one is 0; gradients pass inside the range.

    Args:
        values: any shape, float.
        low: () at most 0.
        high: () at least 0.
    """
    scale = tf.maximum(high - low, 1e-6) / _INPUT_LEVELS
    zero = tf.round(-low / scale)
    scale, zero = tf.cast(scale, values.dtype), tf.cast(zero, values.dtype)
    clipped = tf.clip_by_value(values, -zero * scale, (_INPUT_LEVELS - zero) * scale)
    rounded = (tf.round(clipped / scale + zero) - zero) * scale
    return clipped + tf.stop_gradient(rounded - clipped)


class QuantizeAware:
    """The ranges of one model's inputs to layers, and the extension that trains with them."""

    def __init__(
        self, model: keras.Model, hparams: QuantizeAwareHparams, *, epochs: int, replicas: int = 1
    ) -> None:
        """Call in the strategy's scope.

        Args:
            model: built.
            hparams: when it begins, and how fast ranges follow.
            epochs: of the training; `hparams.begin` is a share of them.
            replicas: of the strategy.

        Raises:
            TrainingError: the model has no layer to quantize, or there are several replicas.
        """
        if replicas > 1:
            raise TrainingError(
                "Quantization-aware training keeps one set of ranges, and works on one device",
                place="train.quantize_aware, train.strategy",
                remedy="Set train.strategy: one_device.",
            )
        self._layers = layers(model)
        if not self._layers:
            raise TrainingError(
                "The model has no dense layer or convolution to quantize",
                place="train.quantize_aware",
                remedy="Leave train.quantize_aware out.",
            )
        self._momentum = hparams.momentum
        self._ranges = [
            tf.Variable(tf.zeros(2), trainable=False, name=f"range_{index}")
            for index in range(len(self._layers))
        ]
        self._state = tf.Variable([math.inf, 0.0], trainable=False, name="quantization_begin_and_step")
        self.extension = Extension(
            around=self._around,
            after_update=self._after_update,
            variables=[*self._ranges, self._state],
            callbacks=[_Begin(self._state, hparams.begin)],
            best_from_epoch=min(epochs, math.floor(epochs * hparams.begin) + 1),
        )

    def _after_update(self, step: tf.Tensor, update: Callable[..., None]) -> None:
        update(self._state, lambda old, now: tf.stack([old[0], now]), tf.cast(step, tf.float32))

    @contextlib.contextmanager
    def _around(self, model: keras.Model) -> Iterator[None]:
        """Layers of the model compute with rounded numbers inside."""
        with contextlib.ExitStack() as stack:
            for layer, span in zip(self._layers, self._ranges, strict=True):
                stack.enter_context(replaced(layer, self._call(layer, layer.call, span)))
            yield

    def _call(self, layer: Any, original: Callable[..., Any], span: tf.Variable) -> Callable[..., Any]:
        def call(inputs: tf.Tensor, *args: Any, **kwargs: Any) -> Any:
            # Convolutions are not told; the call they are part of knows.
            if layer._get_call_context().get_value("training"):
                self._observe(inputs, span)
            active = self._state[1] >= self._state[0]
            quantized = tf.where(active, fake_input(inputs, span[0], span[1]), inputs)
            mapping = [
                (kernel, tf.where(active, fake_kernel(value, axes=axes), value))
                for kernel, value, axes in _kernels(layer)
            ]
            with keras.StatelessScope(state_mapping=mapping):
                return original(quantized, *args, **kwargs)

        call.__name__ = "call"  # Keras's messages name it
        return call

    def _observe(self, inputs: tf.Tensor, span: tf.Variable) -> None:
        """Moves the range towards this batch's; the first batch's is taken as it is."""
        values = tf.cast(inputs, tf.float32)
        seen = tf.stack([tf.minimum(tf.reduce_min(values), 0.0), tf.maximum(tf.reduce_max(values), 0.0)])
        moved = span * self._momentum + seen * (1 - self._momentum)
        span.assign(tf.stop_gradient(tf.where(tf.reduce_all(span == 0.0), seen, moved)))


def _kernels(layer: Any) -> Iterator[tuple[keras.Variable, tf.Tensor, list[int]]]:
    """Each kernel, its value, and the axes over which one scale holds."""
    for name in _KERNEL_NAMES:
        # `kernel` of a layer with LoRA is a sum; what is quantized is its own part.
        kernel = getattr(layer, f"_{name}", None)
        kernel = getattr(layer, name, None) if kernel is None else kernel
        if kernel is None:
            continue
        rank = len(kernel.shape)
        # A depthwise kernel's channels are its last two axes, others' the last.
        channels = 2 if name == "depthwise_kernel" or _is_depthwise(layer) else 1
        yield kernel, tf.cast(kernel.value, tf.float32), list(range(rank - channels))


def _is_depthwise(layer: Any) -> bool:
    return isinstance(layer, keras.layers.DepthwiseConv2D)


class _Begin(keras.callbacks.Callback):
    """Sets the step from which numbers are rounded, once the length of the training is known."""

    def __init__(self, state: tf.Variable, begin: float) -> None:
        super().__init__()
        self._state, self._begin = state, begin

    def on_train_begin(self, logs: Any = None) -> None:
        steps = self.params["epochs"] * self.params["steps"]
        self._state.assign([math.floor(steps * self._begin), self._state[1]])

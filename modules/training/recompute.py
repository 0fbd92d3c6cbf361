"""Computes what happens inside layers again in the backward pass, to save memory.

    with recomputed(model, enabled=True) as count:
        ...      # trace and run training steps

Chen et al., 2016, arXiv:1604.06174, with each layer as a segment: what a layer
makes on its way (attention scores, the inside of activations and
normalisation) is not kept, its output is. Keras's own RematScope cannot be
traced into a graph by this TensorFlow.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from modules.training.layer_calls import replaced


@contextlib.contextmanager
def recomputed(model: keras.Model, *, enabled: bool) -> Iterator[int]:
    """Eligible layers recompute inside; yields how many.

    Layers that change something when they are called (moving statistics,
    random state) are left out: it would change twice.
    """
    layers = [layer for layer in model.layers if _is_eligible(layer)] if enabled else []
    with contextlib.ExitStack() as stack:
        for layer in layers:
            stack.enter_context(replaced(layer, _recomputing(layer.call)))
        yield len(layers)


def _is_eligible(layer: keras.Layer) -> bool:
    return not isinstance(layer, keras.layers.InputLayer) and not layer.non_trainable_variables


def _recomputing(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        flat = tf.nest.flatten((args, kwargs))
        positions = [index for index, value in enumerate(flat) if tf.is_tensor(value)]

        def again(*tensors: tf.Tensor) -> Any:
            values = list(flat)
            for index, tensor in zip(positions, tensors, strict=True):
                values[index] = tensor
            new_args, new_kwargs = tf.nest.pack_sequence_as((args, kwargs), values)
            return original(*new_args, **new_kwargs)

        return tf.recompute_grad(again)(*(flat[index] for index in positions))

    # Keras looks at a call's arguments when it is made, not here; the name is for its messages.
    call.__name__ = "call"
    return call

"""Computes what happens inside layers again in the backward pass, to save memory.

    with recomputed(model, enabled=True) as layers:
        ...      # trace and run training steps

Chen et al., 2016, arXiv:1604.06174, with each layer as a segment: what a layer
makes on its way (attention scores, the inside of activations and
normalisation) is not kept, its output is. Keras's own RematScope cannot be
traced into a graph by this TensorFlow.

What is random in a layer is the same both times: its seeds are read before,
drawn from without being changed inside, and moved on once afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from modules.training.layer_calls import replaced


@dataclass(frozen=True)
class Layers:
    """Names of layers.

    Attributes:
        recomputed: what is inside them is made twice.
        left_out: they change something when they are called, or have frozen weights.
    """

    recomputed: Sequence[str] = ()
    left_out: Sequence[str] = ()

    def __str__(self) -> str:
        line = f"Recomputed in the backward pass: {len(self.recomputed)} layers"
        if not self.left_out:
            return line
        named = ", ".join(self.left_out[:3]) + (", ..." if len(self.left_out) > 3 else "")
        return f"{line}; {len(self.left_out)} keep what they make, since calls change them ({named})"


@contextlib.contextmanager
def recomputed(model: keras.Model, *, enabled: bool) -> Iterator[Layers]:
    """Eligible layers recompute inside; yields which.

    Layers that change something but seeds when they are called (moving
    statistics) are left out: it would change twice.
    """
    layers = [layer for layer in model.layers if not isinstance(layer, keras.layers.InputLayer)]
    eligible = [layer for layer in layers if enabled and _is_eligible(layer)]
    with contextlib.ExitStack() as stack:
        for layer in eligible:
            stack.enter_context(replaced(layer, _recomputing(layer.call, _generators(layer))))
        left_out = [layer.name for layer in layers if enabled and layer not in eligible]
        yield Layers([layer.name for layer in eligible], left_out)


def _is_eligible(layer: keras.Layer) -> bool:
    generators = _generators(layer)
    # A recurrence may draw within its loop, where one draw here is many there.
    if generators and any(isinstance(part, keras.layers.RNN) for part in layer._flatten_layers()):
        return False
    seeds = {id(generator.state) for generator in generators}
    return all(id(variable) in seeds for variable in layer.non_trainable_variables)


def _generators(layer: keras.Layer) -> list[Any]:
    """Every seed generator of a layer and of those inside it, once."""
    found = [generator for part in layer._flatten_layers() for generator in part._seed_generators]
    return list({id(generator): generator for generator in found}.values())


class _Draws:
    """Seeds that a generator would give from a state on, which stays as it is."""

    def __init__(self, state: tf.Tensor) -> None:
        self.state = state

    def next(self, ordered: bool = True) -> tf.Tensor:
        """What `keras.random.SeedGenerator.next` would return."""
        drawn = self.state
        step = tf.constant([0, 1], drawn.dtype)
        self.state = drawn + step if ordered else (drawn + 1) * 5387 % 933199
        return drawn


@contextlib.contextmanager
def _drawn_from(generators: Sequence[Any], states: Sequence[tf.Tensor]) -> Iterator[list[_Draws]]:
    draws = [_Draws(state) for state in states]
    for generator, own in zip(generators, draws, strict=True):
        generator.next = own.next
    try:
        yield draws
    finally:
        for generator in generators:
            del generator.next


def _recomputing(original: Callable[..., Any], generators: Sequence[Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        flat = tf.nest.flatten((args, kwargs))
        positions = [index for index, value in enumerate(flat) if tf.is_tensor(value)]
        # Copies: by the time of the backward pass the variables have moved on.
        states = [tf.identity(generator.state.value) for generator in generators]
        after: list[tf.Tensor] = []

        def again(*tensors: tf.Tensor) -> Any:
            values = list(flat)
            for index, tensor in zip(positions, tensors, strict=True):
                values[index] = tensor
            new_args, new_kwargs = tf.nest.pack_sequence_as((args, kwargs), values)
            with _drawn_from(generators, states) as draws:
                result = original(*new_args, **new_kwargs)
            after[:] = after or [own.state for own in draws]
            return result

        result = tf.recompute_grad(again)(*(flat[index] for index in positions))
        for generator, before, state in zip(generators, states, after, strict=True):
            if state is not before:
                generator.state.assign(state)
        return result

    # Keras looks at a call's arguments when it is made, not here; the name is for its messages.
    call.__name__ = "call"
    return call

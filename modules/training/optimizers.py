"""Optimizers by Keras's names, with weight decay and layer-wise rates where they belong.

optimizer = build(hparams, model)      # built on the model's trainable variables
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from modules.errors import TrainingError
from modules.hparams.train import TrainHparams
from modules.training import schedules

# The loop clips, accumulates, averages and scales by itself, after the
# gradients of all replicas are summed, where Keras would do so before.
_OURS = (
    "learning_rate", "weight_decay", "clipnorm", "clipvalue", "global_clipnorm", "use_ema", "ema_momentum",
    "ema_overwrite_frequency", "loss_scale_factor", "gradient_accumulation_steps", "name", "kwargs",
)  # fmt: skip


def known() -> dict[str, type[keras.optimizers.Optimizer]]:
    """Lower-case name -> class, of every optimizer that this Keras has."""
    base, wrapper = keras.optimizers.Optimizer, keras.optimizers.LossScaleOptimizer
    return {
        name.lower(): value
        for name, value in vars(keras.optimizers).items()
        if inspect.isclass(value)
        and issubclass(value, base)
        and value not in (base, wrapper)
        # MultiOptimizer takes optimizers instead.
        and "learning_rate" in inspect.signature(value).parameters
    }


def build(hparams: TrainHparams, model: keras.Model) -> keras.optimizers.Optimizer:
    """The optimizer that `hparams.optimizer` names, with its variables made.

    Call inside the strategy's scope. The learning rate is a variable, which
    the loop sets from the schedule before every step.

    Raises:
        TrainingError: no optimizer of that name, or an option it does not know.
    """
    optimizer = _create(hparams)
    variables = model.trainable_variables
    if hparams.weight_decay and not hparams.decay_norms_and_biases:
        optimizer.exclude_from_weight_decay(var_list=undecayed(variables))
    optimizer.build(variables)
    if hparams.layer_decay < 1:
        _scale_updates(optimizer, variables, layer_factors(model, hparams.layer_decay))
    return optimizer


def _create(hparams: TrainHparams) -> keras.optimizers.Optimizer:
    optimizers = known()
    name = hparams.optimizer.lower()
    if name not in optimizers:
        raise TrainingError(
            f"There is no optimizer {hparams.optimizer!r}",
            place="train.optimizer",
            remedy=_nearest(name, sorted(optimizers)),
        )
    _check_options(optimizers[name], hparams.optimizer_options)
    try:
        optimizer = optimizers[name](
            learning_rate=schedules.peak_rate(hparams),
            weight_decay=hparams.weight_decay,
            **hparams.optimizer_options,
        )
    except (TypeError, ValueError) as error:
        raise TrainingError(
            f"The optimizer {name} refuses its options: {error}", place="train.optimizer_options"
        ) from error
    if not hparams.weight_decay:
        # Some refuse None when they are made; 0 would multiply every weight by 1.
        optimizer.weight_decay = None
    return optimizer


def options_of(optimizer: type[keras.optimizers.Optimizer]) -> list[str]:
    """The arguments that `train.optimizer_options` may set."""
    return [name for name in inspect.signature(optimizer).parameters if name not in _OURS]


def _check_options(optimizer: type[keras.optimizers.Optimizer], options: Mapping[str, Any]) -> None:
    choices = options_of(optimizer)
    for option in options:
        if option not in choices:
            raise TrainingError(
                f"The optimizer {optimizer.__name__} has no option {option!r}",
                place="train.optimizer_options",
                remedy=_nearest(option, choices),
            )


def _nearest(name: str, choices: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    return f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(choices)}."


def undecayed(variables: Sequence[keras.Variable]) -> list[keras.Variable]:
    """Vectors and scalars: biases, and the scales and offsets of normalisation."""
    return [variable for variable in variables if len(variable.shape) <= 1]


def layer_factors(model: keras.Model, decay: float) -> dict[int, float]:
    """Share of the learning rate for each trainable variable, by `id`.

    The topmost layer with weights gets 1, each layer below `decay` times the
    one above it (Clark et al., 2020, arXiv:2003.10555).
    """
    layers = [layer for layer in model.layers if layer.trainable_variables]
    return {
        id(variable): decay**depth
        for depth, layer in enumerate(reversed(layers))
        for variable in layer.trainable_variables
    }


def _scale_updates(
    optimizer: keras.optimizers.Optimizer,
    variables: Sequence[keras.Variable],
    factors: Mapping[int, float],
) -> None:
    """Multiplies the rate of each variable's update; decoupled weight decay keeps the whole rate.

    Wrapping the optimizer's one update function does it for every optimizer,
    Adam too, whose steps do not change when gradients are scaled.
    """
    by_index = [factors.get(id(variable), 1.0) for variable in variables]
    update: Callable[..., None] = optimizer.update_step

    def scaled(gradient: Any, variable: Any, learning_rate: Any) -> None:
        update(gradient, variable, learning_rate * by_index[optimizer._get_variable_index(variable)])

    optimizer.update_step = scaled

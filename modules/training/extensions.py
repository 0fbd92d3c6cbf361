"""What a task adds to training: other losses and metrics, and work around each step.

    halved = Extension(after_update=lambda step, update: update(kernel, keep_even, mask))
    loop.fit(model, stream, validation, session, extensions=[halved])

Distillation, masked language models, pruning and quantization-aware training
are extensions; the loop knows none of them. Every function is traced into the
steps' graph, and may be compiled with XLA: TensorFlow operations only.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from modules.errors import TrainingError
from modules.training.losses import Loss
from modules.training.metrics import Metric

ExtraLoss = Callable[[Any, Any, Any], tf.Tensor]
"""(features, labels, predictions) -> (B,) float32."""

Update = Callable[..., None]
"""update(variable, function, *tensors): the variable becomes function(value, *tensors), in every replica."""


def unchanged(model: keras.Model) -> contextlib.AbstractContextManager[Any]:
    """Leaves a model as it is."""
    return contextlib.nullcontext()


@dataclass(frozen=True)
class Extension:
    """One thing that is added; several can be given together.

    Attributes:
        loss: instead of `train.loss`: (labels, predictions) -> (B,) float32. Class
            weights and label smoothing are then its own affair.
        metrics: instead of those of `train.loss`: name -> per example, (B,) float32.
        extra_loss: added to the loss while training, per example; not to the
            validation loss, which early stopping goes by.
        loss_weight: what the main loss is multiplied with while training.
        after_update: called once a step, after the weights have moved and before they
            are averaged: with the number of steps done, () int64, and `Update`.
        around: entered around the whole training, to change how layers are called.
        variables: what it keeps from step to step; part of every checkpoint. Make
            them inside `session.scope()`, not trainable.
        callbacks: Keras's, for what is done between calls of the runtime.
        best_from_epoch: weights of earlier epochs (from 1) are never kept as the best,
            nor do those epochs count for early stopping.
    """

    loss: Loss | None = None
    metrics: Mapping[str, Metric] | None = None
    extra_loss: ExtraLoss | None = None
    loss_weight: float = 1.0
    after_update: Callable[[tf.Tensor, Update], None] | None = None
    around: Callable[[keras.Model], contextlib.AbstractContextManager[Any]] = unchanged
    variables: Sequence[tf.Variable] = ()
    callbacks: Sequence[keras.callbacks.Callback] = ()
    best_from_epoch: int = 1


@dataclass(frozen=True)
class Extensions:
    """Several extensions as one."""

    items: tuple[Extension, ...] = ()

    def loss(self, default: Loss) -> Loss:
        """The one loss that replaces the default, if any.

        Raises:
            TrainingError: two of them give one.
        """
        return _one([item.loss for item in self.items if item.loss is not None], default, "losses")

    def metrics(self, default: Mapping[str, Metric]) -> Mapping[str, Metric]:
        """The metrics that replace the default, if any.

        Raises:
            TrainingError: two of them give some.
        """
        return _one([item.metrics for item in self.items if item.metrics is not None], default, "metrics")

    def training_losses(self, main: tf.Tensor, features: Any, labels: Any, predictions: Any) -> tf.Tensor:
        """What is minimised: (B,) float32.

        Args:
            main: the main loss, (B,) float32.
            features: the model's input.
            labels: as the stream gives them.
            predictions: the model's output.
        """
        weight = math.prod(item.loss_weight for item in self.items)
        total = main if weight == 1.0 else main * weight
        extras = [item.extra_loss for item in self.items if item.extra_loss is not None]
        return tf.add_n([total, *(extra(features, labels, predictions) for extra in extras)])

    def after_update(self, step: tf.Tensor, strategy: tf.distribute.Strategy) -> None:
        """Calls each extension's own; outside of the replicas."""

        def update(variable: Any, function: Callable[..., tf.Tensor], *tensors: Any) -> None:
            target = variable.value if isinstance(variable, keras.Variable) else variable
            given = tuple(item.value if isinstance(item, keras.Variable) else item for item in tensors)
            strategy.extended.update(target, _assigning(function), args=given)

        for item in self.items:
            if item.after_update is not None:
                item.after_update(step, update)

    @contextlib.contextmanager
    def around(self, model: keras.Model) -> Iterator[None]:
        """Enters all of them."""
        with contextlib.ExitStack() as stack:
            for item in self.items:
                stack.enter_context(item.around(model))
            yield

    @property
    def variables(self) -> list[tf.Variable]:
        return [variable for item in self.items for variable in item.variables]

    @property
    def best_from_epoch(self) -> int:
        return max((item.best_from_epoch for item in self.items), default=1)

    @property
    def callbacks(self) -> list[keras.callbacks.Callback]:
        return [callback for item in self.items for callback in item.callbacks]


NONE = Extensions()


def _assigning(function: Callable[..., tf.Tensor]) -> Callable[..., None]:
    def assign(variable: tf.Variable, *tensors: Any) -> None:
        variable.assign(function(tf.convert_to_tensor(variable), *tensors))

    return assign


def _one(given: Sequence[Any], default: Any, what: str) -> Any:
    if len(given) > 1:
        raise TrainingError(f"Two extensions of this training give {what}", place="extensions")
    return given[0] if given else default

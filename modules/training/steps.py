"""One optimizer step, and many of them in one call of the runtime.

    steps = TrainSteps(model, optimizer, StepPlan.of(...))
    result = steps.run(iterator, 8, jit=False)        # eight steps, one call

A step cuts its batch into the replicas' parts and those into micro-batches,
sums the gradients of all, divides by the examples, clips, applies. So the
result is that of the whole batch on one device, however it was cut, but for
layers that look across a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from modules import contract
from modules.training import clipping
from modules.training.accumulation import accumulate, cut
from modules.training.averaging import WeightAverage
from modules.training.extensions import NONE, Extensions
from modules.training.losses import Loss
from modules.training.metrics import Metric
from modules.training.precision import LossScale
from modules.training.schedules import Schedule

Batch = tuple[Any, ...]


@dataclass(frozen=True)
class StepPlan:
    """What a step is made of.

    Attributes:
        strategy: over whose replicas a step goes.
        loss: per example.
        metrics: per example, by name.
        schedule: of the learning rate.
        batch_size: examples of a whole batch, over all replicas.
        micro_batches: per replica.
        clip: kind of gradient clipping.
        clip_at: its limit.
        loss_scale: for float16, else None.
        average: of the weights, or None.
        distributed: whether the strategy is more than TensorFlow's default.
        synchronized: whether layers look across replicas (batch normalisation).
        timed: whether waiting for input is measured; TensorFlow has no clock in
            its graphs under op determinism.
        extensions: what the task adds.
    """

    strategy: tf.distribute.Strategy
    loss: Loss
    metrics: Mapping[str, Metric]
    schedule: Schedule
    batch_size: int
    micro_batches: int = 1
    clip: str = "none"
    clip_at: float = 1.0
    loss_scale: LossScale | None = None
    average: WeightAverage | None = None
    distributed: bool = False
    synchronized: bool = False
    timed: bool = True
    extensions: Extensions = NONE

    @property
    def replicas(self) -> int:
        return int(self.strategy.num_replicas_in_sync)


@dataclass(frozen=True)
class StepsResult:
    """What some steps came to.

    Attributes:
        sums: `loss` and each metric, summed over examples; and `examples`.
        bad_step: first step (from 0) whose loss or gradient was not finite, or None.
        bad_tensors: the names of what was not finite in that step.
        wait_s: seconds that the steps waited for input; 0 where that is not measured.
        skipped: steps without an update, for overflow in float16.
    """

    sums: dict[str, float]
    bad_step: int | None
    bad_tensors: tuple[str, ...]
    wait_s: float
    skipped: int


class TrainSteps:
    """Compiles and runs training steps of one model."""

    def __init__(self, model: keras.Model, optimizer: keras.optimizers.Optimizer, plan: StepPlan) -> None:
        """Makes the step counters; call inside the strategy's scope.

        Args:
            model: built; `model(features, training=True)`.
            optimizer: built on the model's trainable variables.
            plan: see `StepPlan`.
        """
        self._model = model
        self._optimizer = optimizer
        self._plan = plan
        self._variables = list(model.trainable_variables)
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
        self.rate_factor = tf.Variable(1.0, trainable=False, name="rate_factor")
        self.names = ("loss", *plan.metrics, "examples")
        self._functions: dict[bool, Callable[..., Any]] = {}
        if plan.replicas > 1:
            # Gradients are summed over the replicas before they are clipped;
            # Keras would sum them a second time.
            optimizer._all_reduce_sum_gradients = lambda grads_and_vars: grads_and_vars

    def run(self, iterator: Any, steps: int, *, jit: bool) -> StepsResult:
        """Takes `steps` steps.

        Args:
            iterator: of batches (features, labels); with `jit` of whole batches only.
            steps: at least 1.
            jit: compile with XLA.
        """
        if jit not in self._functions:
            self._functions[jit] = tf.function(self._many(jit), autograph=False)
        with tf.profiler.experimental.Trace(contract.TRACE_STEPS, steps=steps, jit=int(jit)):
            sums, bad_step, flags, wait, skipped = self._functions[jit](iterator, tf.constant(steps))
            values = sums.numpy().tolist()
        first = int(bad_step)
        return StepsResult(
            sums=dict(zip(self.names, values, strict=True)),
            bad_step=None if first < 0 else first,
            bad_tensors=self._names_of(flags.numpy()) if first >= 0 else (),
            wait_s=float(wait),
            skipped=int(skipped),
        )

    def _names_of(self, flags: Any) -> tuple[str, ...]:
        names = ["loss", *(f"gradient of {variable.path}" for variable in self._variables)]
        return tuple(name for name, flag in zip(names, flags, strict=True) if flag)

    def _many(self, jit: bool) -> Callable[..., Any]:
        step = self._one_step(jit)
        count = len(self._variables) + 1

        def body(index: Any, sums: Any, bad: Any, flags: Any, wait: Any, skipped: Any) -> tuple[Any, ...]:
            batch, waited = self._next()
            if jit:
                batch = tf.nest.map_structure(self._whole, batch)
            # The weights may only move once the wait was measured.
            with tf.control_dependencies([waited]):
                new_sums, new_flags, skip = step(batch)
            first = tf.logical_and(bad < 0, tf.reduce_any(new_flags))
            return (
                index + 1,
                sums + tf.cast(new_sums, tf.float64),
                tf.where(first, index, bad),
                tf.where(first, new_flags, flags),
                wait + waited,
                skipped + tf.cast(skip, tf.int32),
            )

        def many(iterator: Any, steps: tf.Tensor) -> tuple[Any, ...]:
            self._iterator = iterator
            start = (
                tf.constant(0),
                # float64 gives the same total however many steps go into a call, which the clock decides.
                tf.zeros(len(self.names), tf.float64),
                tf.constant(-1),
                tf.zeros(count, tf.bool),
                tf.constant(0.0, tf.float64),
                tf.constant(0),
            )
            # One iteration at a time: else waiting for input could not be told from computing.
            return tuple(tf.while_loop(lambda i, *_: i < steps, body, start, parallel_iterations=1)[1:])

        return many

    def _next(self) -> tuple[Batch, tf.Tensor]:
        """The next batch, and the seconds it was waited for."""
        if not self._plan.timed:
            return next(self._iterator), tf.constant(0.0, tf.float64)
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            batch = next(self._iterator)
        with tf.control_dependencies(tf.nest.flatten(batch)):
            return batch, tf.timestamp() - began

    def _whole(self, tensor: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tensor, [self._plan.batch_size, *tensor.shape[1:]])

    def _one_step(self, jit: bool) -> Callable[[Batch], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        plan = self._plan
        if not plan.distributed:
            if jit and plan.micro_batches == 1:
                return tf.function(self._alone(compiled=False), jit_compile=True, autograph=False)
            return self._alone(compiled=jit)
        return self._distributed(jit)

    def _alone(self, *, compiled: bool) -> Callable[[Batch], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """A step on one device; the whole of it can be compiled."""
        micro = _compiled(self._micro_batch, compiled)
        finish = _compiled(self._finish, compiled)

        def step(batch: Batch) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            self._set_rate()
            return finish(*accumulate(micro, batch, self._plan.micro_batches))

        return step

    def _finish(self, *outputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        grads, sums, squares = self._mean_gradients(*outputs)
        return self._guarded(sums, squares, lambda: self._apply(grads, squares))

    def _distributed(self, jit: bool) -> Callable[[Batch], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """A step over replicas: the micro-batches are compiled, sums and updates are not."""
        strategy = self._plan.strategy
        micro = _compiled(self._micro_batch, jit)

        def part(*batch: Any) -> list[tf.Tensor]:
            return micro(*replica_part(batch))

        def gradients(*batch: Any) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
            # Micro-batches are cut first, so that replicas that normalise a
            # micro-batch together see what one device would see.
            outputs = accumulate(part, batch, self._plan.micro_batches, unroll=self._plan.synchronized)
            context = tf.distribute.get_replica_context()
            return self._mean_gradients(*context.all_reduce(tf.distribute.ReduceOp.SUM, outputs))

        def step(batch: Batch) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            self._set_rate()
            grads, sums, squares = strategy.run(gradients, args=batch)
            first = strategy.experimental_local_results
            # All replicas hold the same sums; a condition is only allowed out here.
            return self._guarded(
                first(sums)[0],
                first(squares)[0],
                lambda: strategy.run(self._apply, args=(grads, squares)),
            )

        return step

    def _micro_batch(self, features: Any, labels: Any) -> list[tf.Tensor]:
        """Gradients of each variable, and last the sums of `names`, of some examples."""
        rows = tf.cast(tf.shape(tf.nest.flatten(labels)[0])[0], tf.float32)
        with tf.GradientTape() as tape:
            predictions = self._model(features, training=True)
            losses = self._plan.loss(labels, predictions)
            minimised = self._plan.extensions.training_losses(losses, features, labels, predictions)
            total = tf.reduce_sum(minimised)
            if self._model.losses:
                total += rows * tf.add_n(self._model.losses)
            # Divided by a constant, so that a batch can be cut at will; the
            # gradients are put right by the true number of examples later.
            total /= self._plan.batch_size
            if self._plan.loss_scale is not None:
                total *= self._plan.loss_scale.scale
        sources = [variable.value for variable in self._variables]
        grads = tape.gradient(total, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        metrics = [tf.reduce_sum(metric(labels, predictions)) for metric in self._plan.metrics.values()]
        sums = tf.stack([tf.reduce_sum(losses), *metrics, rows])
        return [*(tf.convert_to_tensor(grad) for grad in grads), sums]

    def _mean_gradients(self, *outputs: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
        *grads, sums = outputs
        factor = self._plan.batch_size / sums[-1]
        if self._plan.loss_scale is not None:
            factor /= self._plan.loss_scale.scale
        means = [grad * tf.cast(factor, grad.dtype) for grad in grads]
        return means, sums, clipping.squared_norms(means)

    def _apply(self, grads: Sequence[tf.Tensor], squares: tf.Tensor) -> None:
        clipped = clipping.clip(self._plan.clip, self._plan.clip_at, grads, squares)
        self._optimizer.apply(clipped, self._variables)

    def _set_rate(self) -> None:
        self._optimizer.learning_rate = self._plan.schedule(self.step) * self.rate_factor

    def _guarded(
        self, sums: tf.Tensor, squares: tf.Tensor, update: Callable[[], Any]
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Updates, or with a loss scale skips on overflow; returns sums, flags, skipped."""
        flags = tf.logical_not(tf.math.is_finite(tf.concat([sums[:1], squares], 0)))
        scale = self._plan.loss_scale
        skip = tf.constant(False)
        if scale is None:
            update()
        else:
            skip = tf.reduce_any(flags)
            tf.cond(skip, lambda: None, lambda: (update(), None)[1])
            # With nothing left to lower, overflow is no overflow.
            flags = tf.logical_and(flags, scale.scale <= 1.0)
            sums = tf.where(skip, tf.zeros_like(sums), sums)
            scale.update(tf.logical_not(skip))
        self._plan.extensions.after_update(self.step + 1, self._plan.strategy)
        if self._plan.average is not None:
            self._plan.average.update(self._plan.strategy)
        self.step.assign_add(1)
        return sums, flags, skip


class EvalSteps:
    """Sums of loss and metrics over batches, without training."""

    def __init__(self, model: keras.Model, plan: StepPlan) -> None:
        self._model = model
        self._plan = plan
        self._names = ("loss", *plan.metrics, "examples")
        self._functions: dict[bool, Callable[..., tf.Tensor]] = {}
        self._seen: Any = None

    def run(self, dataset: tf.data.Dataset, *, jit: bool) -> dict[str, float]:
        """Means over a data set of (features, labels) batches; empty where it is empty.

        Args:
            dataset: finite.
            jit: compile with XLA; batches of another size than the first's are not.
        """
        total: Any = 0.0
        whole = None
        for batch in dataset:
            rows = tf.nest.flatten(batch)[0].shape[0]
            whole = whole or rows
            self._seen = batch
            with tf.profiler.experimental.Trace(contract.TRACE_EVALUATION):
                total += self._function(jit and rows == whole)(batch).numpy()
        if whole is None:
            return {}
        *sums, examples = total.tolist()
        return {name: value / examples for name, value in zip(self._names, sums, strict=False)}

    def graph(self) -> tf.Graph | None:
        """What is computed for a batch of the last kind seen, traced already; None before the first."""
        if self._seen is None or not self._functions:
            return None
        function: Any = next(iter(self._functions.values()))
        return function.get_concrete_function(self._seen).graph

    def _function(self, jit: bool) -> Callable[..., tf.Tensor]:
        if jit not in self._functions:
            sums = _compiled(self._sums, jit)
            step = self._distributed(sums) if self._plan.distributed else sums
            self._functions[jit] = tf.function(step, autograph=False, reduce_retracing=True)
        return self._functions[jit]

    def _sums(self, batch: Batch) -> tf.Tensor:
        features, labels = batch
        predictions = self._model(features, training=False)
        rows = tf.cast(tf.shape(tf.nest.flatten(labels)[0])[0], tf.float32)
        metrics = [tf.reduce_sum(metric(labels, predictions)) for metric in self._plan.metrics.values()]
        return tf.stack([tf.reduce_sum(self._plan.loss(labels, predictions)), *metrics, rows])

    def _distributed(self, sums: Callable[[Batch], tf.Tensor]) -> Callable[[Batch], tf.Tensor]:
        strategy = self._plan.strategy

        def replica(*batch: Any) -> tf.Tensor:
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, sums(replica_part(batch)))

        return lambda batch: strategy.experimental_local_results(strategy.run(replica, args=batch))[0]


def replica_part(batch: Any) -> Any:
    """The rows of this process's batch that this replica computes.

    Parts differ by at most one row. Cut on the host, so that an accelerator is
    sent its own part only.
    """
    context = tf.distribute.get_replica_context()
    local = context.num_replicas_in_sync // _processes(context.strategy)
    if local == 1:
        return batch
    index = context.replica_id_in_sync_group % local
    with tf.device("CPU:0"):
        return cut(batch, index, local)


def _processes(strategy: tf.distribute.Strategy) -> int:
    resolver = strategy.cluster_resolver
    return len(resolver.cluster_spec().as_dict().get("worker", [0])) if resolver else 1


def _compiled(function: Callable[..., Any], jit: bool) -> Callable[..., Any]:
    return tf.function(function, jit_compile=True, autograph=False) if jit else function

"""Fits a Keras model and reports what came of it.

    session = prepare(hparams.train)
    with session.scope():
        model = build(...)
    report = fit(model, stream, validation, session, store=CheckpointStore(...))

The loop is our own, since Keras's cannot train under every strategy with XLA,
does not continue in the middle of an epoch, and spends more time between
steps; layers, optimizers and callbacks are Keras's.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from modules.errors import TrainingError
from modules.input_pipeline import TrainingStream
from modules.training import assembly, checkpoints, devices, fused_norm, optimizers, seeds
from modules.training.accumulation import cut
from modules.training.boards import Board, Trace
from modules.training.checkpoints import Checkpoint, CheckpointStore
from modules.training.progress import Progress
from modules.training.recompute import recomputed
from modules.training.report import FitReport, Totals
from modules.training.session import Session
from modules.training.signals import Terminated, TerminationFlag
from modules.training.statistics import ReplicaStatistics
from modules.training.steps import EvalSteps, StepsResult, TrainSteps
from modules.training.stopping import LossWatch, Plateau
from modules.training.xla import XlaChooser

INPUT_WAIT_WARNING = 0.10
"""Share of a training's time spent waiting for input above which it is warned about."""

_CALL_S = 0.25
_MAX_STEPS_PER_CALL = 128
# Workers must call the runtime in step, so they cannot follow their own clocks.
_WORKER_STEPS_PER_CALL = 8


def fit(
    model: keras.Model,
    stream: TrainingStream,
    validation: tf.data.Dataset,
    session: Session,
    *,
    store: CheckpointStore | None = None,
    class_counts: Sequence[int] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    board_folder: str = "",
    echo: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> FitReport:
    """Trains to the end or until the validation loss stops falling.

    The weights of the epoch with the lowest validation loss are restored; with
    `ema_momentum`, the averaged ones.

    Args:
        model: built inside `session.scope()`; see `losses` for what it returns.
        stream: of batches (features, labels).
        validation: batches (features, labels), in the same form.
        session: of `prepare`, with the hyperparameters.
        store: of checkpoints; without one a killed training starts anew.
        class_counts: training examples of each class, for `class_weights: balanced`.
        callbacks: Keras's; their batch hooks are called once a call of the
            runtime, as Keras does with `steps_per_execution`.
        board_folder: for TensorBoard; empty for none.
        echo: takes progress lines.
        clock: monotonic seconds.

    Raises:
        TrainingError: no such optimizer, schedule or loss; no examples; a loss
            that is no finite number; a checkpoint of another training.
        Terminated: SIGTERM came; a checkpoint is written.
    """
    training = _Training(model, stream, validation, session, store, class_counts, echo, clock)
    with contextlib.ExitStack() as stack:
        stack.enter_context(recomputed(model, enabled=session.hparams.recompute))
        stack.enter_context(fused_norm.fused(model, enabled=session.hparams.fused_normalization))
        flag = stack.enter_context(TerminationFlag())
        board = Board(board_folder if session.is_chief else "", histograms=session.hparams.histograms)
        stack.callback(board.close)
        trace = Trace(session.hparams.profile, board_folder)
        stack.callback(trace.close)
        return training.run(list(callbacks), flag, board, trace)


class _Training:
    """The state of one call of `fit`."""

    def __init__(
        self,
        model: keras.Model,
        stream: TrainingStream,
        validation: tf.data.Dataset,
        session: Session,
        store: CheckpointStore | None,
        class_counts: Sequence[int] | None,
        echo: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        hparams = session.hparams
        assembly.check_examples(stream, session.placement.replicas)
        self._model, self._stream, self._validation = model, stream, validation
        self._session, self._hparams, self._store = session, hparams, store
        self._echo, self._clock = echo, clock
        # A remainder that cannot give each replica a row is left out.
        self._whole, self._rest = divmod(stream.examples, stream.batch_size)
        self._rest = self._rest if self._rest >= session.placement.replicas else 0
        self._per_epoch = self._whole + (1 if self._rest else 0)
        with self._scope():
            self._optimizer = optimizers.build(hparams, model)
            self._plan = assembly.step_plan(model, session, class_counts, self._per_epoch)
            self._steps = TrainSteps(model, self._optimizer, self._plan)
        self._eval = EvalSteps(model, self._plan)
        self._statistics = ReplicaStatistics(model, self._plan.strategy)
        self._watch = LossWatch(model.variables, hparams.early_stopping_patience)
        self._plateau = Plateau(hparams.reduce_on_plateau_patience, hparams.reduce_on_plateau_factor)
        self._history: dict[str, list[float]] = {}
        self._epoch = self._in_epoch = self._step = self._resumed_from = 0
        self._totals = Totals()
        self._skipped = 0
        self._train_s = self._wait_s = self._steady_s = 0.0
        self._steady_examples = 0.0
        self._last_saved_at = clock()
        self._progress = Progress(
            epochs=hparams.epochs, steps_per_epoch=self._per_epoch, echo=self._say, clock=clock
        )

    def _say(self, line: str) -> None:
        if self._session.is_chief:
            self._echo(line)

    def _scope(self) -> contextlib.AbstractContextManager[Any]:
        placement = self._session.placement
        return placement.strategy.scope() if placement.distributed else contextlib.nullcontext()

    def run(
        self, callbacks: list[keras.callbacks.Callback], flag: TerminationFlag, board: Board, trace: Trace
    ) -> FitReport:
        began = self._clock()
        recorded = self._resume()
        self._xla = self._chooser(recorded)
        if self._hparams.xla == "autocluster":
            tf.config.optimizer.set_jit("autoclustering")
        hooks = assembly.hooks(callbacks, self._model, self._optimizer, self._hparams.epochs, self._per_epoch)
        self._progress.begin(self._step)
        self._last_saved_at = self._clock()
        hooks.on_train_begin()
        iterator = self._iterator()
        while self._epoch < self._hparams.epochs and not self._finished():
            hooks.on_epoch_begin(self._epoch)
            iterator = self._run_epoch(iterator, hooks, flag, board, trace)
            self._end_epoch(hooks, board)
        hooks.on_train_end()
        self._watch.restore()
        if self._store is not None:
            self._store.wait()
        return self._report(self._clock() - began)

    def _finished(self) -> bool:
        return self._watch.exhausted or bool(self._model.stop_training)

    def _run_epoch(
        self,
        iterator: Any,
        hooks: keras.callbacks.CallbackList,
        flag: TerminationFlag,
        board: Board,
        trace: Trace,
    ) -> Any:
        while self._in_epoch < self._per_epoch:
            trace.before(self._step)
            steps = self._call_size(trace)
            hooks.on_train_batch_begin(self._in_epoch)
            result, iterator = self._call(iterator, steps)
            self._take(result, steps)
            hooks.on_train_batch_end(self._in_epoch - 1, self._totals.means())
            if self._agreed(flag.raised):
                self._save()
                if self._store is not None:
                    self._store.wait()
                raise Terminated(self._step, self._store is not None)
            if self._due():
                self._save()
            board.scalars(self._step, {"step/loss": self._totals.means()["loss"], "step/rate": self._rate()})
        return iterator

    def _call(self, iterator: Any, steps: int) -> tuple[StepsResult, Any]:
        """Runs steps, without XLA where the batch is not whole or the model does not compile."""
        jit = self._xla.jit and self._in_epoch < self._whole
        began = self._clock()
        try:
            result = self._steps.run(iterator, steps, jit=jit)
        except (
            tf.errors.InvalidArgumentError,
            tf.errors.UnimplementedError,
            tf.errors.NotFoundError,
        ) as error:
            if not jit or self._xla.compiled:
                raise
            self._xla.failed(str(error))
            self._say(f"Warning: XLA is off, since {self._xla.record()['reason']}")
            # The failed call has taken batches; begin again where it stood.
            return self._call(self._iterator(), steps)
        seconds = self._clock() - began
        self._train_s += seconds
        self._wait_s += result.wait_s
        if self._xla.observe(jit, steps, seconds):
            self._steady_s += seconds
            self._steady_examples += result.sums["examples"]
        return result, iterator

    def _take(self, result: StepsResult, steps: int) -> None:
        if result.bad_step is not None:
            self._refuse(self._step + result.bad_step + 1, result.bad_tensors)
        self._step += steps
        self._in_epoch += steps
        self._totals.add(result)
        self._progress.step(self._step, int(result.sums["examples"]), self._totals.means())

    def _refuse(self, step: int, tensors: Sequence[str]) -> None:
        if self._store is not None:
            self._store.wait()
        raise TrainingError(
            "The loss or a gradient is not a finite number",
            place=f"epoch {self._epoch + 1}, step {step}: {', '.join(tensors[:3])}"
            + (f" and {len(tensors) - 3} more" if len(tensors) > 3 else ""),
            remedy="Lower train.learning_rate, lengthen the warm-up, or set train.precision: float32. "
            "The checkpoints from before are kept.",
        )

    def _call_size(self, trace: Trace) -> int:
        """Steps of the next call: not over the end of whole batches, a checkpoint or a trace."""
        left = self._whole - self._in_epoch
        if left <= 0:
            return 1
        limits = [left, self._wished_size()]
        every = self._hparams.checkpoint.every_steps
        if every and self._store is not None:
            limits.append(every - self._step % every)
        traced = trace.until(self._step)
        return min(limits if traced is None else [*limits, traced])

    def _wished_size(self) -> int:
        if self._hparams.steps_per_call:
            return self._hparams.steps_per_call
        if self._session.placement.workers > 1:
            return _WORKER_STEPS_PER_CALL
        step_s = self._xla.step_s
        return 1 if step_s is None else max(1, min(_MAX_STEPS_PER_CALL, int(_CALL_S / max(step_s, 1e-9))))

    def _end_epoch(self, hooks: keras.callbacks.CallbackList, board: Board) -> None:
        logs = {**self._totals.means(), **self._evaluate()}
        for name, value in logs.items():
            self._history.setdefault(name, []).append(float(value))
        self._skipped += self._totals.skipped
        self._epoch, self._in_epoch, self._totals = self._epoch + 1, 0, Totals()
        if self._plateau.see(logs["val_loss"]):
            self._steps.rate_factor.assign(self._plateau.rate_factor)
        self._progress.epoch(self._epoch, logs)
        board.scalars(self._step, {f"epoch/{name}": value for name, value in logs.items()})
        board.scalars(self._step, {"epoch/examples_per_second": self._progress.examples_per_second()})
        board.weights(self._step, self._model.trainable_variables)
        hooks.on_epoch_end(self._epoch - 1, logs)

    def _evaluate(self) -> dict[str, float]:
        """Validation means, of the averaged weights where there are any; keeps the best."""
        self._statistics.merge()
        average = self._plan.average
        with average.applied() if average else contextlib.nullcontext():
            means = self._eval.run(
                self._local(self._validation), jit=self._xla.jit and not self._xla.measuring
            )
            if not means:
                raise TrainingError(
                    "The validation split is empty",
                    place="split validation",
                    remedy="Give it a larger share (data.splits), or more data.",
                )
            self._watch.see(self._epoch + 1, means["loss"])
        return {f"val_{name}": value for name, value in means.items()}

    def _iterator(self) -> Iterator[Any]:
        batches = self._stream.batches(epoch=self._epoch, step=self._in_epoch, epochs=self._hparams.epochs)
        if not self._rest and self._stream.examples % self._stream.batch_size:
            replicas = self._session.placement.replicas
            batches = batches.filter(lambda *batch: tf.shape(tf.nest.flatten(batch)[0])[0] >= replicas)
        return iter(self._local(batches))

    def _local(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """This worker's rows of each batch."""
        placement = self._session.placement
        if placement.workers == 1:
            return dataset
        micro_batches = self._hparams.accumulate_steps

        def rows(*batch: Any) -> Any:
            cuts = [cut(batch, index, micro_batches) for index in range(micro_batches)]
            parts = [cut(each, placement.worker, placement.workers) for each in cuts]
            return tf.nest.map_structure(lambda *tensors: tf.concat(tensors, 0), *parts)

        return dataset.map(rows)

    def _rate(self) -> float:
        return float(self._optimizer.learning_rate.numpy())

    def _agreed(self, raised: bool) -> bool:
        """Whether it is so in any worker; what all must do after the same step is decided by it."""
        placement = self._session.placement
        if placement.workers == 1:
            return raised
        return bool(assembly.any_worker(placement.strategy, tf.constant(float(raised))) > 0)

    def _due(self) -> bool:
        if self._store is None:
            return False
        checkpoint = self._hparams.checkpoint
        by_steps = bool(checkpoint.every_steps) and self._step % checkpoint.every_steps == 0
        minutes = (self._clock() - self._last_saved_at) / 60
        by_time = bool(checkpoint.every_minutes) and minutes >= checkpoint.every_minutes
        return by_steps or self._agreed(by_time)

    def _groups(self) -> dict[str, Sequence[Any]]:
        groups: dict[str, Sequence[Any]] = {
            "model": self._model.variables,
            "optimizer": self._optimizer.variables,
            "steps": [self._steps.step, self._steps.rate_factor],
        }
        if self._plan.loss_scale is not None:
            groups["loss_scale"] = self._plan.loss_scale.variables
        if self._plan.average is not None:
            groups["average"] = self._plan.average.variables
        return groups

    def _save(self) -> None:
        if self._store is None:
            return
        self._last_saved_at = self._clock()
        self._statistics.merge()
        if not self._session.is_chief:
            return
        arrays = {**checkpoints.to_arrays(self._groups()), **self._watch.arrays()}
        self._store.save(Checkpoint(self._step, arrays, self._position()))

    def _position(self) -> dict[str, Any]:
        return {
            "epoch": self._epoch,
            "in_epoch": self._in_epoch,
            "sums": self._totals.sums,
            "skipped": self._skipped + self._totals.skipped,
            "history": self._history,
            "watch": self._watch.state(),
            "plateau": self._plateau.state(),
            "random": seeds.capture(),
            "xla": None if self._xla.measuring else self._xla.record(),
        }

    def _resume(self) -> dict[str, Any] | None:
        """Goes to where the latest checkpoint stands; returns the recorded choice of XLA, if any."""
        if self._store is None or not self._hparams.checkpoint.resume:
            return None
        found = self._store.latest()
        if found is None:
            return self._store.choices().get("xla")
        position = found.position
        checkpoints.assign(self._groups(), found.arrays, f"step {found.step}")
        self._step = self._resumed_from = found.step
        self._epoch, self._in_epoch = position["epoch"], position["in_epoch"]
        self._totals = Totals(dict(position["sums"]))
        self._skipped = position["skipped"]
        self._history = {name: list(values) for name, values in position["history"].items()}
        self._watch.load(position["watch"], found.arrays)
        self._plateau.load(position["plateau"])
        seeds.restore(position["random"])
        self._say(f"Resumed at epoch {self._epoch + 1}, step {self._step}")
        return dict(position["xla"]) if position["xla"] else None

    def _chooser(self, recorded: dict[str, Any] | None) -> XlaChooser:
        return XlaChooser(
            self._hparams.xla,
            remaining_steps=self._hparams.epochs * self._per_epoch - self._step,
            recorded=recorded,
            measure=not self._hparams.deterministic
            and self._session.placement.workers == 1
            and not self._plan.synchronized,
        )

    def _wait_share(self) -> float | None:
        if not self._plan.timed:
            return None
        share = self._wait_s / self._train_s if self._train_s else 0.0
        if share > INPUT_WAIT_WARNING:
            self._say(
                f"Warning: {share:.0%} of the training time was spent waiting for input. "
                "Decode less per step (smaller images, cached data) or give the input more cores."
            )
        return round(share, 4)

    def _report(self, seconds: float) -> FitReport:
        wait_share = self._wait_share()
        choices = {"xla": self._xla.record()}
        if self._store is not None and self._session.is_chief:
            self._store.save_choices(choices)
        steady = self._steady_examples / self._steady_s if self._steady_s else 0.0
        return FitReport(
            history=self._history,
            epochs=self._epoch,
            best_epoch=self._watch.best_epoch,
            steps=self._step,
            seconds=round(seconds, 3),
            examples_per_second=round(steady or self._progress.examples_per_second(), 1),
            parameters=self._model.count_params(),
            input_wait_share=wait_share,
            skipped_steps=self._skipped,
            resumed_from_step=self._resumed_from,
            choices=choices,
            system={**self._session.describe(), "peak_memory_mb": devices.peak_memory_mb()},
        )

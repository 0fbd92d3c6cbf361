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
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from modules.errors import TrainingError
from modules.input_pipeline import TrainingStream
from modules.training import assembly, devices, fused_activations, fused_norm, optimizers
from modules.training.boards import Board, Trace
from modules.training.checkpoints import CheckpointStore
from modules.training.extensions import Extension, Extensions
from modules.training.feed import Feed
from modules.training.pace import Pace, warn_of_waiting
from modules.training.progress import Progress
from modules.training.recompute import recomputed
from modules.training.report import FitReport
from modules.training.session import Session
from modules.training.signals import Terminated, TerminationFlag
from modules.training.state import Keeper
from modules.training.steps import EvalSteps, StepsResult, TrainSteps
from modules.training.xla import XlaChooser, unfit_for

NOT_FINITE = "The loss or a gradient is not a finite number"
"""Headline of the one failure of a training that other hyperparameters may cure."""


def fit(
    model: keras.Model,
    stream: TrainingStream,
    validation: tf.data.Dataset,
    session: Session,
    *,
    store: CheckpointStore | None = None,
    class_counts: Sequence[int] | None = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    extensions: Sequence[Extension] = (),
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
        extensions: what the task adds to losses, metrics and steps.
        board_folder: for TensorBoard; empty for none.
        echo: takes progress lines.
        clock: monotonic seconds.

    Raises:
        TrainingError: no such optimizer, schedule or loss; no examples; a loss
            that is no finite number; a checkpoint of another training.
        Terminated: SIGTERM came; a checkpoint is written.
    """
    added = Extensions(tuple(extensions))
    feed = Feed(stream, validation, session)
    training = _Training(model, feed, session, added, store, class_counts, echo, clock)
    with contextlib.ExitStack() as stack:
        layers = stack.enter_context(recomputed(model, enabled=session.hparams.recompute))
        if session.hparams.recompute and session.is_chief:
            echo(str(layers))
        stack.enter_context(fused_norm.fused(model, enabled=session.hparams.fused_normalization))
        stack.enter_context(fused_activations.fused(enabled=session.hparams.fused_activations))
        stack.enter_context(added.around(model))
        flag = stack.enter_context(TerminationFlag())
        board = Board(board_folder if session.is_chief else "", histograms_every=session.hparams.histograms)
        stack.callback(board.close)
        trace = Trace(session.hparams.profile, board_folder)
        stack.callback(trace.close)
        return training.run([*callbacks, *added.callbacks], flag, board, trace)


class _Training:
    """One call of `fit`."""

    def __init__(
        self,
        model: keras.Model,
        feed: Feed,
        session: Session,
        extensions: Extensions,
        store: CheckpointStore | None,
        class_counts: Sequence[int] | None,
        echo: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        hparams = session.hparams
        self._model, self._feed, self._session, self._hparams = model, feed, session, hparams
        self._echo, self._clock = echo, clock
        with self._scope():
            self._optimizer = optimizers.build(hparams, model)
            self._plan = assembly.step_plan(model, session, class_counts, feed.per_epoch, extensions)
            self._steps = TrainSteps(model, self._optimizer, self._plan)
        self._eval = EvalSteps(model, self._plan)
        self._keeper = Keeper(model, self._optimizer, self._steps, self._plan, session, store, clock)
        self._at = self._keeper.standing
        self._pace = Pace(hparams, workers=session.placement.workers, timed=self._plan.timed)
        self._progress = Progress(
            epochs=hparams.epochs, steps_per_epoch=feed.per_epoch, echo=self._say, clock=clock
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
        recorded = self._keeper.resume()
        if self._at.resumed_from:
            self._say(f"Resumed at epoch {self._at.epoch + 1}, step {self._at.step}")
        self._xla = self._chooser(recorded)
        if self._hparams.xla == "autocluster":
            tf.config.optimizer.set_jit("autoclustering")
        epochs, per_epoch = self._hparams.epochs, self._feed.per_epoch
        hooks = assembly.hooks(callbacks, self._model, self._optimizer, epochs, per_epoch)
        self._progress.begin(self._at.step)
        self._keeper.restart_clock()
        hooks.on_train_begin()
        iterator = self._iterator()
        while self._at.epoch < epochs and not self._finished():
            hooks.on_epoch_begin(self._at.epoch)
            iterator = self._run_epoch(iterator, hooks, flag, board, trace)
            self._end_epoch(hooks, board)
        hooks.on_train_end()
        self._keeper.watch.restore()
        self._keeper.wait()
        return self._report(self._clock() - began)

    def _finished(self) -> bool:
        return self._keeper.watch.exhausted or bool(self._model.stop_training)

    def _iterator(self) -> Any:
        return self._feed.iterator(epoch=self._at.epoch, in_epoch=self._at.in_epoch)

    def _run_epoch(
        self,
        iterator: Any,
        hooks: keras.callbacks.CallbackList,
        flag: TerminationFlag,
        board: Board,
        trace: Trace,
    ) -> Any:
        while self._at.in_epoch < self._feed.per_epoch:
            trace.before(self._at.step)
            steps = self._call_size(trace)
            hooks.on_train_batch_begin(self._at.in_epoch)
            result, iterator = self._call(iterator, steps)
            self._take(result, steps)
            hooks.on_train_batch_end(self._at.in_epoch - 1, self._at.totals.means())
            if self._agreed(flag.raised):
                self._save()
                raise Terminated(self._at.step, self._keeper.wait())
            if self._keeper.due(self._agreed):
                self._save()
            loss = self._at.totals.means()["loss"]
            board.scalars(self._at.step, {"step/loss": loss, "step/rate": self._rate()})
        return iterator

    def _call(self, iterator: Any, steps: int) -> tuple[StepsResult, Any]:
        """Runs steps, without XLA where the batch is not whole or the model does not compile."""
        jit = self._xla.jit and self._at.in_epoch < self._feed.whole
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
        self._pace.add(seconds, result, steady=self._xla.observe(jit, steps, seconds))
        return result, iterator

    def _take(self, result: StepsResult, steps: int) -> None:
        if result.bad_step is not None:
            self._refuse(self._at.step + result.bad_step + 1, result.bad_tensors)
        self._at.step += steps
        self._at.in_epoch += steps
        self._at.totals.add(result)
        self._progress.step(self._at.step, int(result.sums["examples"]), self._at.totals.means())

    def _refuse(self, step: int, tensors: Sequence[str]) -> None:
        self._keeper.wait()
        raise TrainingError(
            NOT_FINITE,
            place=f"epoch {self._at.epoch + 1}, step {step}: {', '.join(tensors[:3])}"
            + (f" and {len(tensors) - 3} more" if len(tensors) > 3 else ""),
            remedy="Lower train.learning_rate, lengthen the warm-up, or set train.precision: float32. "
            "The checkpoints from before are kept.",
        )

    def _call_size(self, trace: Trace) -> int:
        """Steps of the next call: not over the end of whole batches, a checkpoint or a trace."""
        left = self._feed.whole - self._at.in_epoch
        if left <= 0:
            return 1
        limits = (left, self._keeper.steps_until_due(), trace.until(self._at.step))
        return self._pace.steps_of_call([limit for limit in limits if limit is not None], self._xla.step_s)

    def _end_epoch(self, hooks: keras.callbacks.CallbackList, board: Board) -> None:
        logs = {**self._at.totals.means(), **self._evaluate()}
        self._at.next_epoch(logs)
        if self._keeper.plateau.see(logs["val_loss"]):
            self._steps.rate_factor.assign(self._keeper.plateau.rate_factor)
        self._progress.epoch(self._at.epoch, logs)
        board.scalars(self._at.step, {f"epoch/{name}": value for name, value in logs.items()})
        board.scalars(self._at.step, {"epoch/examples_per_second": self._progress.examples_per_second()})
        board.weights(self._at.step, self._at.epoch, self._model.trainable_variables)
        board.graph(self._eval.graph)
        hooks.on_epoch_end(self._at.epoch - 1, logs)

    def _evaluate(self) -> dict[str, float]:
        """Validation means, of the averaged weights where there are any; keeps the best."""
        self._keeper.statistics.merge()
        average = self._plan.average
        with average.applied() if average else contextlib.nullcontext():
            jit = self._xla.jit and not self._xla.measuring
            means = self._eval.run(self._feed.validation(), jit=jit)
            if not means:
                raise TrainingError(
                    "The validation split is empty",
                    place="split validation",
                    remedy="Give it a larger share (data.splits), or more data.",
                )
            if self._at.epoch + 1 >= self._plan.extensions.best_from_epoch:
                self._keeper.watch.see(self._at.epoch + 1, means["loss"])
        return {f"val_{name}": value for name, value in means.items()}

    def _rate(self) -> float:
        return float(self._optimizer.learning_rate.numpy())

    def _agreed(self, raised: bool) -> bool:
        """Whether it is so in any worker; what all must do after the same step is decided by it."""
        placement = self._session.placement
        if placement.workers == 1:
            return raised
        return bool(assembly.any_worker(placement.strategy, tf.constant(float(raised))) > 0)

    def _save(self) -> None:
        self._keeper.save(None if self._xla.measuring else self._xla.record())

    def _chooser(self, recorded: dict[str, Any] | None) -> XlaChooser:
        return XlaChooser(
            self._hparams.xla,
            remaining_steps=self._hparams.epochs * self._feed.per_epoch - self._at.step,
            recorded=recorded,
            measure=not self._hparams.deterministic
            and self._session.placement.workers == 1
            and not self._plan.synchronized,
            unfit=unfit_for(self._model, devices.describe()["device"]),
        )

    def _report(self, seconds: float) -> FitReport:
        wait_share = self._pace.wait_share()
        warn_of_waiting(wait_share, self._say)
        choices = {"xla": self._xla.record()}
        self._keeper.record(choices)
        rate = self._pace.examples_per_second() or self._progress.examples_per_second()
        return FitReport(
            history=self._at.history,
            epochs=self._at.epoch,
            best_epoch=self._keeper.watch.best_epoch,
            steps=self._at.step,
            seconds=round(seconds, 3),
            examples_per_second=round(rate, 1),
            parameters=self._model.count_params(),
            input_wait_share=wait_share,
            skipped_steps=self._at.skipped,
            resumed_from_step=self._at.resumed_from,
            choices=choices,
            system={
                **self._session.describe(),
                "peak_memory_mb": devices.peak_memory_mb(),
                "device_peak_memory_mb": devices.device_peak_memory_mb(),
            },
        )

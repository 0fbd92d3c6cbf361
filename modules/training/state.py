"""Where a training stands, and how that is written down and found again.

keeper = Keeper(model, optimizer, steps, plan, session, store, clock)
recorded = keeper.resume()          # goes to the latest checkpoint
keeper.save(xla.record())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras

from modules.training import checkpoints, seeds
from modules.training.checkpoints import Checkpoint, CheckpointStore
from modules.training.report import Totals
from modules.training.session import Session
from modules.training.statistics import ReplicaStatistics
from modules.training.steps import StepPlan, TrainSteps
from modules.training.stopping import LossWatch, Plateau


@dataclass
class Standing:
    """Counters of a training.

    Attributes:
        epoch: finished epochs.
        in_epoch: steps done in this one.
        step: optimizer steps done in all.
        resumed_from: step at which this process took over.
        history: metric name -> value per epoch.
        totals: sums over the present epoch.
        skipped: steps without an update, in finished epochs.
    """

    epoch: int = 0
    in_epoch: int = 0
    step: int = 0
    resumed_from: int = 0
    history: dict[str, list[float]] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    skipped: int = 0

    def next_epoch(self, logs: Mapping[str, float]) -> None:
        """Puts an epoch's values into the history, and begins the next."""
        for name, value in logs.items():
            self.history.setdefault(name, []).append(float(value))
        self.skipped += self.totals.skipped
        self.epoch, self.in_epoch, self.totals = self.epoch + 1, 0, Totals()

    def position(self) -> dict[str, Any]:
        """JSON-like, for a checkpoint; copies, since that is written while the training goes on."""
        return {
            "epoch": self.epoch,
            "in_epoch": self.in_epoch,
            "sums": dict(self.totals.sums),
            "skipped": self.skipped + self.totals.skipped,
            "history": {name: list(values) for name, values in self.history.items()},
        }

    def load(self, step: int, position: Mapping[str, Any]) -> None:
        """Puts back what `position` gave at `step`."""
        self.step = self.resumed_from = step
        self.epoch, self.in_epoch = position["epoch"], position["in_epoch"]
        self.totals = Totals(dict(position["sums"]))
        self.skipped = position["skipped"]
        self.history = {name: list(values) for name, values in position["history"].items()}


class Keeper:
    """Everything of a training that a checkpoint holds."""

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        steps: TrainSteps,
        plan: StepPlan,
        session: Session,
        store: CheckpointStore | None,
        clock: Callable[[], float],
    ) -> None:
        hparams = session.hparams
        self._model, self._optimizer, self._steps, self._plan = model, optimizer, steps, plan
        self._session, self._checkpoint, self._store = session, hparams.checkpoint, store
        self._clock = clock
        self._last_saved_at = clock()
        self.standing = Standing()
        self.statistics = ReplicaStatistics(model, plan.strategy)
        self.watch = LossWatch(model.variables, hparams.early_stopping_patience)
        self.plateau = Plateau(hparams.reduce_on_plateau_patience, hparams.reduce_on_plateau_factor)

    def restart_clock(self) -> None:
        """Checkpoints by time are counted from now on."""
        self._last_saved_at = self._clock()

    def steps_until_due(self) -> int | None:
        """Steps until a checkpoint is due by steps; None for never."""
        every = self._checkpoint.every_steps
        return every - self.standing.step % every if every and self._store is not None else None

    def due(self, agreed: Callable[[bool], bool]) -> bool:
        """Whether to save now; `agreed` tells whether any worker's clock says so."""
        if self._store is None:
            return False
        every, minutes = self._checkpoint.every_steps, self._checkpoint.every_minutes
        by_steps = bool(every) and self.standing.step % every == 0
        by_time = bool(minutes) and (self._clock() - self._last_saved_at) / 60 >= minutes
        return by_steps or agreed(by_time)

    def save(self, xla: Mapping[str, Any] | None) -> None:
        """Writes a checkpoint in the background; every worker must call it at the same step.

        Args:
            xla: the choice that holds on resuming; None while it is still open.
        """
        if self._store is None:
            return
        self._last_saved_at = self._clock()
        self.statistics.merge()
        if not self._session.is_chief:
            return
        arrays = {**checkpoints.to_arrays(self._groups()), **self.watch.arrays()}
        position = {
            **self.standing.position(),
            "watch": self.watch.state(),
            "plateau": self.plateau.state(),
            "random": seeds.capture(),
            "xla": xla,
        }
        self._store.save(Checkpoint(self.standing.step, arrays, position))

    def wait(self) -> bool:
        """Waits until all checkpoints are on disk; whether there is a store at all."""
        if self._store is not None:
            self._store.wait()
        return self._store is not None

    def resume(self) -> dict[str, Any] | None:
        """Goes to where the latest checkpoint stands; returns the recorded choice of XLA, if any."""
        if self._store is None:
            return None
        if not self._checkpoint.resume:
            # Those of an earlier training have higher steps: they would be kept, and the new ones removed.
            if self._session.is_chief:
                self._store.clear()
            return None
        found = self._store.latest()
        if found is None:
            return self._store.choices().get("xla")
        position = found.position
        checkpoints.assign(self._groups(), found.arrays, f"step {found.step}")
        self.standing.load(found.step, position)
        self.watch.load(position["watch"], found.arrays)
        self.plateau.load(position["plateau"])
        seeds.restore(position["random"])
        return dict(position["xla"]) if position["xla"] else None

    def record(self, choices: Mapping[str, Any]) -> None:
        """Keeps what was chosen by measuring, where this is the chief."""
        if self._store is not None and self._session.is_chief:
            self._store.save_choices(choices)

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
        if self._plan.extensions.variables:
            groups["extensions"] = self._plan.extensions.variables
        return groups

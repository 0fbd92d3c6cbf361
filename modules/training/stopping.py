"""When to stop, which weights to keep, when to lower the rate: by the validation loss.

    watch = LossWatch(model.variables, patience=8)
    watch.see(epoch, loss)          # keeps the best weights
    if watch.exhausted: ...
    watch.restore()

All of it goes into checkpoints, so that a resumed run stops where an
undisturbed one does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np


class LossWatch:
    """Early stopping that keeps the weights of the best epoch."""

    def __init__(self, variables: Sequence[keras.Variable], patience: int) -> None:
        """Watches a model.

        Args:
            variables: of the model; copied at every better epoch.
            patience: epochs without a better loss after which it is `exhausted`.
        """
        self._variables = list(variables)
        self._patience = patience
        self.best_loss = math.inf
        self.best_epoch = 0
        self._waited = 0
        self._best: list[np.ndarray] = []

    @property
    def exhausted(self) -> bool:
        return self._waited >= self._patience

    def see(self, epoch: int, loss: float) -> bool:
        """Takes note of an epoch (from 1) and its loss; True where it is the best so far."""
        if loss < self.best_loss:
            self.best_loss, self.best_epoch, self._waited = loss, epoch, 0
            self._best = [np.array(variable.numpy()) for variable in self._variables]
            return True
        self._waited += 1
        return False

    def restore(self) -> None:
        """Puts the best weights into the model, where there was an epoch."""
        for variable, value in zip(self._variables, self._best, strict=False):
            variable.assign(value)

    def state(self) -> dict[str, Any]:
        return {"loss": self.best_loss, "epoch": self.best_epoch, "waited": self._waited}

    def arrays(self) -> dict[str, np.ndarray]:
        """The best weights, as `best/0`, `best/1`, ..."""
        return {f"best/{index}": value for index, value in enumerate(self._best)}

    def load(self, state: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Puts back what `state` and `arrays` returned."""
        self.best_loss, self.best_epoch = float(state["loss"]), int(state["epoch"])
        self._waited = int(state["waited"])
        count = sum(1 for name in arrays if name.startswith("best/"))
        self._best = [arrays[f"best/{index}"] for index in range(count)]


class Plateau:
    """Lowers the learning rate when the loss stops falling."""

    def __init__(self, patience: int, factor: float) -> None:
        """Args: epochs to wait (0: never lowers), and what the rate is multiplied with."""
        self._patience = patience
        self._multiply = factor
        self._best = math.inf
        self._waited = 0
        self.rate_factor = 1.0

    def see(self, loss: float) -> bool:
        """Takes note of an epoch's loss; True where the rate was lowered."""
        if loss < self._best:
            self._best, self._waited = loss, 0
            return False
        self._waited += 1
        if not self._patience or self._waited < self._patience:
            return False
        self._waited = 0
        self.rate_factor *= self._multiply
        return True

    def state(self) -> dict[str, float]:
        return {"best": self._best, "waited": self._waited, "rate_factor": self.rate_factor}

    def load(self, state: Mapping[str, float]) -> None:
        """Puts back what `state` returned."""
        self._best, self._waited = float(state["best"]), int(state["waited"])
        self.rate_factor = float(state["rate_factor"])

"""What is decided before a model is built: seeds, devices, strategy, precision.

session = prepare(hparams.train)
with session.scope():
    model = build(...)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modules.hparams.train import TrainHparams
from modules.training import devices, precision, seeds, strategies
from modules.training.precision import PrecisionChoice
from modules.training.strategies import Placement


@dataclass(frozen=True)
class Session:
    """Where and in which numbers a model is trained.

    Attributes:
        hparams: settings.
        placement: devices and strategy.
        precision: which numbers.
        small: whether a step is a matter of milliseconds.
    """

    hparams: TrainHparams
    placement: Placement
    precision: PrecisionChoice
    small: bool = False

    @property
    def rebuilds(self) -> bool:
        """Whether what is served is made anew from the trained weights."""
        return self.precision.policy != precision.FLOAT32 or self.placement.distributed

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints and the model."""
        return self.placement.is_chief

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Models built inside belong to the strategy, and compute by the policy."""
        with contextlib.ExitStack() as stack:
            if self.placement.distributed:
                stack.enter_context(self.placement.strategy.scope())
            stack.enter_context(precision.policy(self.precision.policy))
            yield

    def describe(self) -> dict[str, Any]:
        """Facts for the record."""
        return {
            **devices.describe(),
            **strategies.describe(self.placement),
            "precision": self.precision.policy,
            "precision_reason": self.precision.reason,
            "seed": self.hparams.seed,
            "deterministic": self.hparams.deterministic,
        }


def prepare(
    hparams: TrainHparams, environment: Mapping[str, str] = os.environ, *, small: bool = False
) -> Session:
    """Seeds everything and takes hold of the devices.

    Call before anything else touches TensorFlow's devices: workers can only be
    joined, and threads set, before the first operation runs.

    Args:
        hparams: settings.
        environment: of this process.
        small: whether a step is a matter of milliseconds, so that threads would wait for each other
            more than they compute, and 16 bits can hardly pay.

    Raises:
        TrainingError: a strategy without its devices, a bad TF_CONFIG, a worker
            that does not come, or a batch smaller than the replicas.
    """
    devices.configure(hparams, small=small)
    placement = strategies.build(hparams, environment)
    seeds.set_all(hparams.seed, deterministic=hparams.deterministic)
    # Workers must agree, so none of them may decide by its own timing.
    deterministic = hparams.deterministic or placement.workers > 1
    choice = precision.choose(hparams.precision, deterministic=deterministic, probe=not small)
    return Session(hparams, placement, choice, small)

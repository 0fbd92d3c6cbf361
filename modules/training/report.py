"""What a training did, and the sums on the way.

report = FitReport(...)
report.to_json()
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from modules.training.steps import StepsResult


@dataclass(frozen=True)
class FitReport:
    """What a training run did; `history` is metric name -> value per epoch.

    Attributes:
        history: `loss`, metrics, and both with `val_` before them.
        epochs: trained.
        best_epoch: from 1; its weights are the model's now.
        steps: optimizer steps.
        seconds: in this process, compiling and evaluating included.
        examples_per_second: of training alone, without the calls that compile.
        parameters: of the model.
        input_wait_share: of the training time, in [0, 1]; None where it cannot be measured.
        skipped_steps: for overflow in float16.
        resumed_from_step: 0 where the training was not resumed.
        choices: what was chosen by device or timing, and why.
        system: devices, versions, precision, strategy, peak memory.
    """

    history: dict[str, list[float]]
    epochs: int
    best_epoch: int
    steps: int
    seconds: float
    examples_per_second: float
    parameters: int
    input_wait_share: float | None
    skipped_steps: int
    resumed_from_step: int
    choices: dict[str, Any]
    system: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Totals:
    """What is summed over a training or an epoch; part of a checkpoint."""

    sums: dict[str, float] = field(default_factory=dict)
    skipped: int = 0

    def add(self, result: StepsResult) -> None:
        self.skipped += result.skipped
        for name, value in result.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def means(self) -> dict[str, float]:
        examples = self.sums.get("examples") or 1.0
        return {name: value / examples for name, value in self.sums.items() if name != "examples"}

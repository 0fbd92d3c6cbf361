"""How fast a training goes, and how many steps a call of the runtime takes.

pace = Pace(hparams, workers=1)
steps = pace.steps_of_call([left_in_epoch], step_s)
pace.add(seconds, result, steady=True)
pace.wait_share()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from modules.hparams.train import TrainHparams
from modules.training.steps import StepsResult

INPUT_WAIT_WARNING = 0.10
"""Share of a training's time spent waiting for input above which it is warned about."""

_CALL_S = 0.25
_MAX_STEPS_PER_CALL = 128
# Workers must call the runtime in step, so they cannot follow their own clocks. And an epoch's
# loss is summed call by call: its last digits would follow the clock.
_UNTIMED_STEPS_PER_CALL = 8


class Pace:
    """Time spent in training calls."""

    def __init__(self, hparams: TrainHparams, *, workers: int, timed: bool) -> None:
        """Args: settings, number of worker processes, and whether waiting is measured."""
        untimed = workers > 1 or hparams.deterministic
        self._fixed = hparams.steps_per_call or (_UNTIMED_STEPS_PER_CALL if untimed else 0)
        self._timed = timed
        self._train_s = self._wait_s = 0.0
        self._steady_s = self._steady_examples = 0.0

    def steps_of_call(self, limits: Sequence[int], step_s: float | None) -> int:
        """Steps of the next call: about a quarter of a second, and within all limits.

        Args:
            limits: numbers of steps, each at least 1.
            step_s: seconds that a step takes; None where it is not known yet.
        """
        return min(*limits, self._wished(step_s))

    def _wished(self, step_s: float | None) -> int:
        if self._fixed:
            return self._fixed
        return 1 if step_s is None else max(1, min(_MAX_STEPS_PER_CALL, int(_CALL_S / max(step_s, 1e-9))))

    def add(self, seconds: float, result: StepsResult, *, steady: bool) -> None:
        """Takes note of a call; `steady` where it compiled nothing."""
        self._train_s += seconds
        self._wait_s += result.wait_s
        if steady:
            self._steady_s += seconds
            self._steady_examples += result.sums["examples"]

    def examples_per_second(self) -> float | None:
        """Of steady calls alone; None before the first."""
        return self._steady_examples / self._steady_s if self._steady_s else None

    def wait_share(self) -> float | None:
        """Share of the training time spent waiting for input, in [0, 1]; None where it is not measured."""
        if not self._timed:
            return None
        return round(self._wait_s / self._train_s, 4) if self._train_s else 0.0


def warn_of_waiting(share: float | None, say: Callable[[str], None]) -> bool:
    """Says so where too much time went into waiting for input; whether it did."""
    if share is None or share <= INPUT_WAIT_WARNING:
        return False
    say(
        f"Warning: {share:.0%} of the training time was spent waiting for input. "
        "Decode less per step (smaller images, cached data) or give the input more cores."
    )
    return True

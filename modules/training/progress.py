"""What a training tells while it goes on: a line an epoch, and one every ten seconds.

lines = Progress(epochs=30, steps_per_epoch=17, echo=print, clock=time.monotonic)
lines.begin(step=0)
lines.step(step=8, examples=512, means={"loss": 0.4})
lines.epoch(1, {"loss": 0.4, "val_loss": 0.5})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

_EVERY_S = 10.0


class Progress:
    """Writes lines with examples a second, loss, metrics and the time that is left."""

    def __init__(
        self, *, epochs: int, steps_per_epoch: int, echo: Callable[[str], None], clock: Callable[[], float]
    ) -> None:
        self._epochs = epochs
        self._steps_per_epoch = steps_per_epoch
        self._echo = echo
        self._clock = clock
        self._began = self._last = clock()
        self._first_step = self._step = 0
        self._examples = 0

    def begin(self, step: int) -> None:
        """Starts the clock; `step` is where a resumed run goes on."""
        self._began = self._last = self._clock()
        self._first_step = self._step = step

    def step(self, step: int, examples: int, means: Mapping[str, float]) -> None:
        """Some steps are done: `step` in all, `examples` since the last call."""
        self._step = step
        self._examples += examples
        now = self._clock()
        if now - self._last >= _EVERY_S:
            self._last = now
            epoch = min(step // self._steps_per_epoch + 1, self._epochs)
            in_epoch = step % self._steps_per_epoch
            self._line(f"epoch {epoch}/{self._epochs} step {in_epoch}/{self._steps_per_epoch}", means)

    def epoch(self, number: int, means: Mapping[str, float]) -> None:
        """An epoch (from 1) is done."""
        self._last = self._clock()
        self._line(f"epoch {number}/{self._epochs}", means)

    def _line(self, where: str, means: Mapping[str, float]) -> None:
        figures = "  ".join(f"{name} {value:.4f}" for name, value in means.items())
        self._echo(f"{where}  {figures}  {self.examples_per_second():.0f} examples/s  ETA {self._eta()}")

    def examples_per_second(self) -> float:
        """Since `begin`, with everything that happened since."""
        return self._examples / max(self._clock() - self._began, 1e-9)

    def _eta(self) -> str:
        done = self._step - self._first_step
        if not done:
            return "unknown"
        left = self._epochs * self._steps_per_epoch - self._step
        seconds = round((self._clock() - self._began) / done * left)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

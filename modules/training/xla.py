"""Whether steps are compiled with XLA: set, or measured in the run itself.

    chooser = XlaChooser("auto", remaining_steps=10_000)
    while training:
        jit = chooser.jit
        ... run some steps ...
        chooser.observe(jit, steps, seconds)
    chooser.record()      # {"xla": False, "reason": ..., "plain_step_ms": ..., "xla_step_ms": ...}

`auto` first runs plain steps, and compiles only where what is left is long
enough to win the compilation back. It then runs both in turns, since a busy
machine slows whatever runs at the moment, and keeps the faster. All of these
are training steps that count.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from typing import Any

import keras

_TURNS = 3
_MIN_TURN_S = 0.5
_MIN_GAIN = 1.05
_KEPT = 100
_DEPTHWISE = (
    keras.layers.DepthwiseConv1D,
    keras.layers.DepthwiseConv2D,
    keras.layers.SeparableConv1D,
    keras.layers.SeparableConv2D,
)
# A first step that is this much slower is no noise: more of them would only cost.
_HOPELESS = 1.5
# Compiling was seen to take three to five times as long as the first plain call,
# which traces; XLA to take off a quarter of a step's time at best.
_COMPILE_PER_TRACE = 5.0
_HOPED_SAVING = 0.25


class XlaChooser:
    """Says for each call whether to compile, from how long earlier calls took."""

    def __init__(
        self,
        mode: str,
        *,
        remaining_steps: int,
        recorded: Mapping[str, Any] | None = None,
        measure: bool = True,
        unfit: str = "",
    ) -> None:
        """Starts a choice.

        Args:
            mode: `auto`, `on`, `off` or `autocluster`.
            remaining_steps: steps of the whole training that are still to come.
            recorded: what `record` gave in an earlier part of this training, which holds.
            measure: False where nothing may be chosen by timing.
            unfit: of `unfit_for`: why `auto` does not try; empty where it does.
        """
        self._remaining = remaining_steps
        self._first_s: dict[bool, float] = {}
        self._latest_s: dict[bool, float] = {}
        self._turn: list[tuple[int, float]] = []
        self._turns: dict[bool, list[float]] = {False: [], True: []}
        self.jit = mode == "on"
        self._reason = f"set by train.xla: {mode}"
        self._open = False
        if mode != "auto":
            return
        if recorded:
            self.jit, self._reason = bool(recorded["xla"]), f"recorded earlier: {recorded['reason']}"
        elif not measure:
            self._reason = "nothing is chosen by timing here"
        elif unfit:
            self._reason = unfit
        else:
            self._reason, self._open = "still measuring", True

    @property
    def measuring(self) -> bool:
        """Whether the choice is still open."""
        return self._open

    @property
    def compiled(self) -> bool:
        """Whether a compiled call has gone well."""
        return True in self._first_s

    @property
    def step_s(self) -> float | None:
        """Seconds a step, of the latest steady call of the kind that is due; None before the first."""
        return self._latest_s.get(self.jit)

    def observe(self, jit: bool, steps: int, seconds: float) -> bool:
        """Takes note of a call: `steps` steps in `seconds`.

        Returns:
            Whether the call was steady: the first of each kind compiles.
        """
        self._remaining -= steps
        if jit not in self._first_s:
            self._first_s[jit] = seconds
            return False
        self._latest_s[jit] = seconds / steps
        if self._open and jit != self.jit:
            return True  # an epoch's last, smaller batch, which is never compiled
        if self._open:
            if jit and not self._turns[True] and self._slowdown() > _HOPELESS:
                self._turns[True].append(seconds / steps)
                self._close(False, f"a compiled step took {self._slowdown():.1f} times as long as without")
                return True
            self._turn.append((steps, seconds))
            if sum(spent for _, spent in self._turn) >= _MIN_TURN_S:
                self._end_turn(jit)
        elif len(self._turns[jit]) < _KEPT:
            self._turns[jit].append(seconds / steps)
        return True

    def _end_turn(self, jit: bool) -> None:
        steps = sum(count for count, _ in self._turn)
        self._turns[jit].append(sum(spent for _, spent in self._turn) / steps)
        self._turn = []
        if not self.compiled and not self._pays():
            self._close(False, "too short a training to win back compiling")
        elif all(len(turns) >= _TURNS for turns in self._turns.values()):
            self._decide()
        else:
            self.jit = not jit

    def _slowdown(self) -> float:
        return self._latest_s[True] / statistics.median(self._turns[False])

    def _pays(self) -> bool:
        left_s = self._remaining * self._turns[False][0]
        return left_s * _HOPED_SAVING > self._first_s[False] * _COMPILE_PER_TRACE

    def _decide(self) -> None:
        gain = statistics.median(
            plain / compiled for plain, compiled in zip(self._turns[False], self._turns[True], strict=False)
        )
        self._close(gain >= _MIN_GAIN, f"measured {gain:.2f} times as fast as without")

    def _close(self, jit: bool, reason: str) -> None:
        self.jit, self._reason, self._open = jit, reason, False

    def failed(self, message: str) -> None:
        """The model does not compile: no XLA from now on."""
        self._close(False, f"the model does not compile: {operation_in(message)}")

    def record(self) -> dict[str, Any]:
        """The choice, why, and the figures: milliseconds a step, seconds of the first calls."""
        return {
            "xla": self.jit,
            "reason": self._reason,
            "plain_step_ms": _median_ms(self._turns[False]),
            "xla_step_ms": _median_ms(self._turns[True]),
            "first_call_s": round(self._first_s.get(False, 0.0), 3),
            "compile_s": round(self._first_s.get(True, 0.0), 3),
        }


def _median_ms(seconds: list[float]) -> float | None:
    return round(1000 * statistics.median(seconds), 3) if seconds else None


def unfit_for(model: keras.Model, device: str) -> str:
    """Why compiling this model on this device (CPU, GPU or TPU) is not worth a trial; empty where it may be.

    XLA makes plain loops of grouped convolutions on a processor: MobileNetV2's
    step was measured at 20 times TensorFlow's own, after half a minute of compiling.
    Batches of texts come in several lengths, and the step of each is compiled anew: two of
    them took as long as 1,800 plain steps, and the second passed for a steady step.
    """
    if device != "CPU":
        return ""
    if any(size is None for tensor in model.inputs for size in tensor.shape[1:]):
        return "the step would be compiled anew for each length of a batch"
    for layer in model._flatten_layers():
        if isinstance(layer, _DEPTHWISE) or getattr(layer, "groups", 1) not in (None, 1):
            return f"XLA has no fast kernel on a processor for the grouped convolution of {layer.name}"
    return ""


def operation_in(message: str) -> str:
    """What a compilation error says of the operation that XLA lacks, in one line."""
    unsupported = re.search(r"unsupported operations.*?:\s*(.+?)(?:\n|$)", message, re.S)
    if unsupported:
        return unsupported.group(1).strip()[:200]
    named = re.search(r"\{\{node ([^}]+)\}\}", message)
    lines = message.strip().splitlines()
    return f"at {named.group(1)}" if named else (lines[0][:200] if lines else "no reason given")

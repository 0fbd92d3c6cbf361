"""SIGTERM as a flag that the loop looks at between calls.

with TerminationFlag() as flag:
    ...
    if flag.raised: ...
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Self


class Terminated(SystemExit):
    """Training was told to stop, and did so after a whole step.

    A SystemExit, with the code of a process that SIGTERM ended, so that nothing
    takes it for a failure of the model.
    """

    def __init__(self, step: int, saved: bool) -> None:
        super().__init__(128 + signal.SIGTERM)
        self.step = step
        self.saved = saved


class TerminationFlag:
    """While entered, SIGTERM raises the flag and does nothing else.

    Off the main thread, where Python allows no handlers, it stays down.
    """

    def __init__(self) -> None:
        self.raised = False
        self._before: signal.Handlers | object = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._raise)
        return self

    def _raise(self, signum: int, frame: FrameType | None) -> None:
        self.raised = True

    def __exit__(self, *error: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._before)  # type: ignore[arg-type]

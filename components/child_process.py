"""What a forked process does at its beginning and at its end, whoever forked it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from typing import NoReturn

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Linux ends this process when its parent dies, so that a killed parent leaves none behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def leave(code: int) -> NoReturn:
    """Ends this process with its output written.

    Not `sys.exit`: native libraries have crashed in the interpreter's shutdown
    after the work was done and recorded.
    """
    with contextlib.suppress(OSError):  # a full disk
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)

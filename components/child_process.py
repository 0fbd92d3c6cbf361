"""What a forked process does at its beginning and at its end, whoever forked it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG = 1
_GENERATED = "__autograph_generated_file"
"""How TensorFlow 2.21's autograph names the modules that it writes into the temporary folder."""


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
    _remove_generated_modules()
    os._exit(code)


def _remove_generated_modules() -> None:
    # Autograph removes them by `atexit`, which `os._exit` passes by; once loaded, they are not read again.
    for name in [name for name in sys.modules if name.startswith(_GENERATED)]:
        with contextlib.suppress(OSError, AttributeError):
            Path(sys.modules[name].__file__ or "").unlink()

"""The terminal, kept apart from what libraries print."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

PIPE_WIDTH = 160
"""Columns of a table that is piped: wide enough not to fold, narrow enough to read."""


def console() -> Console:
    """A console on standard output."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH)


@contextlib.contextmanager
def output_apart(log: Path) -> Iterator[Console]:
    """A console on the terminal, while what anything else prints goes to `log`.

    TensorFlow and Beam write to the descriptors themselves, so the descriptors
    are what is moved; child processes inherit that.
    """
    from pipelines.runners.processes import redirect_output

    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with os.fdopen(os.dup(1), "w", buffering=1) as screen:
        redirect_output(log)
        try:
            yield Console(file=screen, width=None if screen.isatty() else PIPE_WIDTH)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for descriptor, target in zip(saved, (1, 2), strict=True):
                os.dup2(descriptor, target)
                os.close(descriptor)


@contextlib.contextmanager
def output_apart_nowhere() -> Iterator[Console]:
    """As `output_apart`, where there is no folder for a log: what libraries print is dropped."""
    with output_apart(Path(os.devnull)) as screen:
        yield screen

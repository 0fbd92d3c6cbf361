"""One process at a time in a workspace's SQLite file.

    with exclusive(database.path): ...

ML Metadata gives up after a few tries where several processes write, and with
write-ahead logging it fails with I/O errors. Its sections are short (nodes
work outside of them), so a file lock costs nothing and no run meets an error.
The lock goes with the process that holds it, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

_threads: dict[Path, threading.RLock] = defaultdict(threading.RLock)
_held: dict[Path, tuple[int, int]] = {}
"""Path -> (descriptor, how often this thread took it); file locks are per descriptor."""


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Holds the lock that belongs to `path`; a thread that has it may take it again."""
    with _threads[path]:
        _take(path)
        try:
            yield
        finally:
            _give_back(path)


def _take(path: Path) -> None:
    descriptor, count = _held.get(path, (-1, 0))
    if not count:
        descriptor = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    _held[path] = (descriptor, count + 1)


def _give_back(path: Path) -> None:
    descriptor, count = _held[path]
    _held[path] = (descriptor, count - 1)
    if count == 1:
        del _held[path]
        os.close(descriptor)

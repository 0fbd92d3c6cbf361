"""A scheduler between two rounds: when it last looked, and whether it lives.

    presence = Presence(folder)
    presence.looked(now)
    with presence.waiting() as beat:
        beat()                          # every few seconds
    presence.last_look(), presence.who_waits()

While a round goes on the lease tells, which two schedulers must not hold; any
number may wait. None of it is needed for anything but to be looked at, so
that a full disk stops no scheduler.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pipelines import leases

_LOOKED, _WAITING = "looked.json", "waiting.json"


class Presence:
    """What schedulers of one experiment leave to be seen, in its folder of the workspace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def looked(self, now: float) -> None:
        """Notes that somebody has looked what is to be done."""
        self._note(_LOOKED, {"at": now})

    def last_look(self) -> float | None:
        """Seconds since the epoch; None for never."""
        return self._noted(_LOOKED).get("at")

    @contextlib.contextmanager
    def waiting(self) -> Iterator[Callable[[], None]]:
        """This process waits for what comes next; yields what gives a sign of life."""
        path = self._folder / _WAITING
        me = {"pid": os.getpid(), "host": socket.gethostname()}
        self._note(_WAITING, me)

        def beat() -> None:
            with contextlib.suppress(OSError):
                os.utime(path)

        try:
            yield beat
        finally:
            if self._noted(_WAITING) == me:  # and not another's, who waits too
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)

    def who_waits(self, clock: Callable[[], float] = time.time) -> str:
        """The process that waits, in words; empty for none."""
        told = self._noted(_WAITING)
        try:
            silent_s = clock() - (self._folder / _WAITING).stat().st_mtime
        except OSError:
            return ""
        if silent_s > leases.STALE_S or not told:
            return ""
        here = told["host"] == socket.gethostname()
        return "" if here and not _lives(told["pid"]) else f"process {told['pid']} on {told['host']}"

    def _note(self, name: str, told: dict[str, Any]) -> None:
        scratch = self._folder / f".{name}.{os.getpid()}.part"
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps(told))
            scratch.replace(self._folder / name)

    def _noted(self, name: str) -> dict[str, Any]:
        try:
            return dict(json.loads((self._folder / name).read_text()))
        except (OSError, ValueError, TypeError):
            return {}


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True

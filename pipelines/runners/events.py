"""What happens in a run, as one JSON object a line: nodes append, the command line reads.

events = EventLog(run_folder)
events.append(Event("Trainer", "running", time.time()))
for event in events.new(): ...
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

RUNNING, COMPLETE, CACHED, FAILED, SKIPPED = "running", "complete", "cached", "failed", "skipped"
RETRYING = "retrying"
"""A failed node waits for its next try; `seconds` is how long, `error` why."""

_RESERVE_BYTES = 1 << 20

ENDED = (COMPLETE, CACHED, FAILED, SKIPPED)


@dataclass(frozen=True)
class Event:
    """A node's change of state.

    Attributes:
        node: node id.
        state: one of this module's states.
        at: seconds since the epoch.
        seconds: wall time since the node began, when it has ended.
        error: headline, place and remedy, when it failed.
        user_error: whether the user can mend it.
        kinds: names of the error's classes, or `crash` or `timeout`.
    """

    node: str
    state: str
    at: float
    seconds: float | None = None
    error: dict[str, str] | None = None
    user_error: bool = False
    kinds: Sequence[str] = ()


class EventLog:
    """A file that several processes append to and one reads."""

    def __init__(self, run_folder: Path, *, from_now_on: bool = False) -> None:
        """Opens the log.

        Args:
            run_folder: where it lies.
            from_now_on: whether `new` passes over what is there already.
        """
        self.path = run_folder / "events.jsonl"
        self._reserve = run_folder / "reserve"
        self._read_to = self.path.stat().st_size if from_now_on and self.path.exists() else 0

    def append(self, event: Event) -> None:
        """Adds an event; one write to a file opened for appending is not torn."""
        line = (json.dumps(asdict(event)) + "\n").encode()
        try:
            self._write(line)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self.free_reserve()
            self._write(line)

    def _write(self, line: bytes) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)

    def take_reserve(self) -> None:
        """Puts a mebibyte aside, so that a run on a full disk can still say so."""
        self._reserve.write_bytes(b"\0" * _RESERVE_BYTES)

    def free_reserve(self) -> None:
        """Gives it back; harmless when it was given back before."""
        self._reserve.unlink(missing_ok=True)

    def new(self) -> list[Event]:
        """Events that were appended since the last call."""
        if not self.path.exists():
            return []
        with open(self.path, "rb") as file:
            file.seek(self._read_to)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return [Event(**json.loads(line)) for line in whole.splitlines()]

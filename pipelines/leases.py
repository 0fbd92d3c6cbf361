"""A lease tells a run that lives from one that died: a locked file in the run's folder.

    with leases.taken(workspace.run_folder(run_id)) as lease:
        lease.beat()                    # now and then, for other hosts
    leases.is_alive(run_folder)         # False for a run that was killed

The lock goes with the last process of the run, however that ends: forked nodes
inherit it, so a run whose program was killed counts as alive until its nodes
are gone too. A file that is there and not locked is a run that died; a run
that ends takes its file away. Where hosts share a workspace on a file system
without shared locks, the file's time stamp tells.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pipelines.errors import HeadraceError, WorkspaceError

FILE = "lease"
BEAT_S = 5.0
"""How often a run renews its time stamp."""

STALE_S = 60.0
"""A run of another host with no sign of life for so long is taken for dead."""


class Lease:
    """A lease that this process holds."""

    def __init__(self, folder: Path, descriptor: int, clock: Callable[[], float]) -> None:
        self._path = folder / FILE
        self._descriptor = descriptor
        self._clock = clock
        self._beaten = clock()

    def beat(self) -> None:
        """Renews the time stamp, at most every BEAT_S seconds; harmless on a full disk."""
        now = self._clock()
        # A clock that went back counts as due: else it would be silent until it has caught up.
        if not 0 <= now - self._beaten < BEAT_S:
            self._beaten = now
            with contextlib.suppress(OSError):
                os.utime(self._path)

    def release(self) -> None:
        """Ends the lease: the file goes first, so that nobody finds it unlocked."""
        with contextlib.suppress(OSError):  # a workspace that became read-only
            self._path.unlink(missing_ok=True)
        self.leave()

    def leave(self) -> None:
        """Lets go of the lease as a kill would, so that whoever comes next settles what was going on."""
        with contextlib.suppress(OSError):
            # Unlocks for forked children that still have the descriptor, too.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


@contextlib.contextmanager
def taken(folder: Path, clock: Callable[[], float] = time.time, wait_s: float = 10.0) -> Iterator[Lease]:
    """Holds the lease of a run; a process that is killed leaves the file behind, unlocked.

    So does an error that is none of ours: it came from where nobody recorded how the run ended.

    Args:
        folder: the run's.
        clock: seconds since the epoch.
        wait_s: how long to wait for the last processes of a killed run to end.

    Raises:
        WorkspaceError: the run is alive.
    """
    lease = _take(folder, clock, wait_s)
    try:
        yield lease
    except HeadraceError:
        lease.release()
        raise
    except BaseException:
        lease.leave()
        raise
    lease.release()


def _take(folder: Path, clock: Callable[[], float], wait_s: float) -> Lease:
    deadline = time.monotonic() + wait_s
    while True:
        holder = describe(folder)
        descriptor = None if _lives_elsewhere(folder, clock) else try_lock(folder / FILE)
        if descriptor is not None:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
            return Lease(folder, descriptor, clock)
        if time.monotonic() > deadline:
            raise WorkspaceError(
                "This run is still going on",
                place=f"{folder.name}, {holder}",
                remedy="Wait for it, or end it.",
            )
        time.sleep(0.1)


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the file's lock, made where missing; None where another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever held it may have taken the file away between the two calls.
        if _still_names(path, descriptor):
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None


def _still_names(path: Path, descriptor: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


@contextlib.contextmanager
def shared(path: Path) -> Iterator[None]:
    """Holds a lock that any number of processes may hold; `try_lock` fails meanwhile."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        # It may have been taken away while we waited.
        if _still_names(path, descriptor):
            break
        os.close(descriptor)
    try:
        yield
    finally:
        os.close(descriptor)


def is_alive(folder: Path, clock: Callable[[], float] = time.time) -> bool:
    """Whether any process of the run lives. Asks without writing, so a read-only workspace does."""
    try:
        descriptor = os.open(folder / FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return _lives_elsewhere(folder, clock)


def _lives_elsewhere(folder: Path, clock: Callable[[], float]) -> bool:
    """Whether another host has given a sign of life lately."""
    try:
        holder = json.loads((folder / FILE).read_text() or "{}")
        age_s = clock() - (folder / FILE).stat().st_mtime
    except (OSError, ValueError):
        return False
    return holder.get("host") not in (None, socket.gethostname()) and age_s < STALE_S


def holder_lives(folder: Path) -> bool:
    """Whether the program that took a lease lives; where it does not, what is left of it ends soon."""
    try:
        holder = json.loads((folder / FILE).read_text())
        if holder["host"] == socket.gethostname():
            os.kill(holder["pid"], 0)
    except PermissionError:
        return True  # another user's
    except (OSError, ValueError, KeyError):
        return False
    return True


def describe(folder: Path) -> str:
    """Who holds a lease, in words."""
    try:
        holder = json.loads((folder / FILE).read_text())
        return f"process {holder['pid']} on {holder['host']}"
    except (OSError, ValueError, KeyError):
        return "a process that has just begun"


def left_behind(runs: Path, clock: Callable[[], float] = time.time) -> list[Path]:
    """Folders of runs that died: their lease is there, and nobody holds it."""
    return [file.parent for file in sorted(runs.glob(f"*/{FILE}")) if not is_alive(file.parent, clock)]

"""A serving root: version folders by number, and what lies beside them.

    <root>/7/                  a version; the highest is in service
    <root>/.withdrawn/6/       a version that servers no longer see, nor count
    <root>/.withdrawn/6.json   why, since when, and by what
    <root>/.staging/           copies under way
    <root>/.highest-version    so that no number is given twice
    <root>/.lock               held while a number is given or a folder moved
    <root>/config.pbtxt        Triton's, of the version in service; also in each version's folder

    in_service(root)                                  # 7
    put_in_service(root, 6, "7 is slow", now)         # a few renames

TensorFlow Serving serves the highest number and passes over names that are no
number, so that moving the newer versions aside puts an older one in service.
Standard library only, so that a command answers at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from components.errors import PushError
from components.serving.triton import CONFIG_FILE

Cause = Literal["rollback", "canary"]

_STAGING = ".staging"
_WITHDRAWN = ".withdrawn"
_HIGHEST = ".highest-version"
_LOCK = ".lock"


@dataclass(frozen=True)
class Withdrawal:
    """Why a version is not to be served.

    Attributes:
        cause: `rollback`, which rolling forward undoes, or `canary`: it answered wrongly.
        reason: in words.
        at: seconds since the epoch.
    """

    cause: Cause
    reason: str
    at: float


@dataclass(frozen=True)
class Change:
    """What putting a version in service changed; numbers ascend.

    Attributes:
        before: in service before, or None.
        after: in service now.
        withdrawn: moved aside.
        restored: moved back.
    """

    before: int | None
    after: int
    withdrawn: Sequence[int]
    restored: Sequence[int]


def versions(root: Path) -> list[int]:
    """The version numbers that a server sees, ascending."""
    return sorted(_numbered(root))


def in_service(root: Path) -> int | None:
    """The version that TensorFlow Serving's default policy serves; None where there is none."""
    return max(_numbered(root), default=None)


def folder_of(root: Path, number: int) -> Path | None:
    """The folder of a version, in service or withdrawn; None where it is gone."""
    return _numbered(root).get(number) or _numbered(root / _WITHDRAWN).get(number)


def withdrawals(root: Path) -> dict[int, Withdrawal]:
    """The withdrawn versions by number, ascending, with the reasons."""
    return {number: _read_record(root, number) for number in sorted(_numbered(root / _WITHDRAWN))}


def withdraw(root: Path, number: int, withdrawal: Withdrawal) -> Path:
    """Moves a version out of the servers' sight, by one rename; returns where it lies now.

    Raises:
        PushError: there is no such version.
        OSError: the root cannot be written.
    """
    with locked(root):
        target = _withdraw(root, number, withdrawal)
        _follow_configuration(root)
        return target


def put_in_service(
    root: Path,
    target: int,
    withdrawal: Withdrawal,
    announce: Callable[[Change], None] = lambda change: None,
) -> Change:
    """Makes `target` the highest version that servers see.

    It is moved back first where it was withdrawn, and the version in service
    moved aside last, so that at no moment a server finds another version at
    the top, or none. Rolling forward also brings back what rollbacks had
    moved aside below the target, so that it undoes them.

    Args:
        root: `serving/<model>`.
        target: a version in the root, or a withdrawn one.
        withdrawal: what is recorded with each version that is moved aside.
        announce: told what will change before anything does; not called where nothing will.

    Raises:
        PushError: there is no such version.
        OSError: the root cannot be written.
    """
    with locked(root):
        change = _plan(root, target)
        if change.withdrawn or change.restored:
            announce(change)
        for number in reversed(change.restored):
            _restore(root, number)
        for number in change.withdrawn:
            _withdraw(root, number, withdrawal)
        _follow_configuration(root)
        return change


def _plan(root: Path, target: int) -> Change:
    seen, aside = versions(root), withdrawals(root)
    if target not in seen and target not in aside:
        raise _missing(root, target)
    restored = [
        number
        for number, item in aside.items()
        if number == target or (number < target and item.cause == "rollback")
    ]
    withdrawn = [number for number in seen if number > target]
    return Change(max(seen, default=None), target, withdrawn, restored)


def remove(root: Path, numbers: Iterable[int]) -> list[int]:
    """Deletes versions for good; the one in service is passed over, as are those that are gone.

    Raises:
        OSError: the root cannot be written; what was removed until then stays so.
    """
    removed = []
    with locked(root):
        _remember(root, highest(root))
        for number in sorted(set(numbers) - {in_service(root)}):
            folder = folder_of(root, number)
            if folder is None:
                continue
            # First out of sight, by one rename: a server never sees half a folder.
            doomed = Path(tempfile.mkdtemp(dir=_staging(root)))
            folder.rename(doomed / "version")
            _record_path(root, number).unlink(missing_ok=True)
            shutil.rmtree(doomed)
            removed.append(number)
        flush_folder(root)
    return removed


def take_number(staged: Path, root: Path) -> int:
    """Renames a complete copy to the next number: higher than any that this root ever had."""
    with locked(root):
        number = highest(root) + 1
        # Before the rename: a number that is lost to a crash is better than one given twice.
        _remember(root, number)
        staged.rename(root / str(number))
        flush_folder(root)
        return number


def raise_floor(root: Path, number: int) -> None:
    """Makes every number that is given from now on higher than `number`."""
    with locked(root):
        _remember(root, max(number, highest(root)))


def highest(root: Path) -> int:
    """The highest number ever given; 0 for none."""
    file = root / _HIGHEST
    remembered = int(file.read_text() or 0) if file.exists() else 0
    return max([remembered, *_numbered(root), *_numbered(root / _WITHDRAWN)])


@contextlib.contextmanager
def staging_folder(root: Path) -> Iterator[Path]:
    """An empty folder on the root's file system, removed when the block ends.

    A folder whose process was killed holds no lock any more, and is removed by
    whoever makes the next one.
    """
    root.mkdir(parents=True, exist_ok=True)
    flush_folder(root.parent)
    with locked(root):
        _remove_stale(_staging(root))
        folder = Path(tempfile.mkdtemp(dir=_staging(root)))
        descriptor = _try_lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """Holds the root's lock; it goes with the process that holds it, however that ends."""
    descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Forces a folder to disk, files and entries: after a power cut a rename must not outlive them."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            _flush_path(Path(parent, name))
        flush_folder(Path(parent))


def flush_folder(folder: Path) -> None:
    """Forces a folder's entries to disk."""
    _flush_path(folder)


def write_whole(path: Path, contents: str) -> None:
    """Replaces a file at one moment, and forces it to disk; the root's lock must be held."""
    # One name, so that what a crash leaves is overwritten by the next.
    temporary = path.with_name(f".{path.name.lstrip('.')}.tmp")
    with open(temporary, "w") as file:
        file.write(contents)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    flush_folder(path.parent)


def _numbered(folder: Path) -> dict[int, Path]:
    """Number -> folder; names may have leading zeros, and ASCII digits only."""
    if not folder.is_dir():
        return {}
    return {
        int(path.name): path
        for path in folder.iterdir()
        if path.name.isascii() and path.name.isdigit() and path.is_dir()
    }


def _missing(root: Path, number: int) -> PushError:
    known = [*versions(root), *withdrawals(root)]
    return PushError(
        f"There is no version {number}",
        place=str(root),
        remedy=f"Known: {', '.join(map(str, sorted(known)))}." if known else "Nothing was pushed yet.",
    )


def _withdraw(root: Path, number: int, withdrawal: Withdrawal) -> Path:
    source = _numbered(root).get(number)
    if source is None:
        raise _missing(root, number)
    target = root / _WITHDRAWN / str(number)
    target.parent.mkdir(exist_ok=True)
    # The record first: a withdrawn version always has one.
    write_whole(_record_path(root, number), json.dumps(asdict(withdrawal), indent=1))
    source.rename(target)
    _flush_both(root)
    return target


def _follow_configuration(root: Path) -> None:
    """Puts the configuration of the version in service where Triton looks for it: beside the versions."""
    number = in_service(root)
    own = None if number is None else _numbered(root)[number] / CONFIG_FILE
    if own is not None and own.exists():
        write_whole(root / CONFIG_FILE, own.read_text())


def _restore(root: Path, number: int) -> None:
    (root / _WITHDRAWN / str(number)).rename(root / str(number))
    _flush_both(root)
    _record_path(root, number).unlink(missing_ok=True)


def _flush_both(root: Path) -> None:
    flush_folder(root)
    flush_folder(root / _WITHDRAWN)


def _record_path(root: Path, number: int) -> Path:
    return root / _WITHDRAWN / f"{number}.json"


def _read_record(root: Path, number: int) -> Withdrawal:
    try:
        raw: Mapping[str, object] = json.loads(_record_path(root, number).read_text())
        return Withdrawal(**raw)  # type: ignore[arg-type]
    except (OSError, ValueError, TypeError):
        # Moved by hand: never brought back unasked.
        return Withdrawal("canary", "moved aside by hand", 0.0)


def _remember(root: Path, number: int) -> None:
    write_whole(root / _HIGHEST, str(number))


def _staging(root: Path) -> Path:
    folder = root / _STAGING
    folder.mkdir(exist_ok=True)
    return folder


def _remove_stale(staging: Path) -> None:
    for folder in staging.iterdir():
        descriptor = _try_lock(folder)
        if descriptor is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)


def _try_lock(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock; None where another has it, or has just removed it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _flush_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

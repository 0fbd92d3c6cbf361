"""Copies of a serving root elsewhere: a mounted folder, or an object store.

    join(root, "s3://models/digits")       # before the first push: numbers go on from what is there
    follow(root)                           # after each push, rollback or prune
    follow(root, ["s3://models/digits"])

The root in the workspace gives the numbers and says what is in service; mirrors
follow it. Any file system that fsspec knows will do. Where it has renames (a
folder), a version appears at one moment; in an object store, which has none,
the model's own file comes last, and goes first when a version is withdrawn.
Versions that others put there are never touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.errors import PushError
from components.serving.triton import CONFIG_FILE
from components.serving_pusher import root as serving_root

MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt", "model.tflite", "model.onnx", "model.plan")
"""What servers look for: copied last."""

_RECORD = ".mirrors.json"
_LOCK = ".mirrors.lock"
_STAGING = ".staging"
# What opening and using a remote file system can raise; each client has its own tree below these.
_FAILURES = (OSError, ValueError, ImportError, RuntimeError)


@dataclass(frozen=True)
class _Mirror:
    """An opened mirror: `path` is the model's folder on file system `files`."""

    url: str
    files: Any
    path: str

    def versions(self) -> list[int]:
        if not self.files.exists(self.path):
            return []
        names = [str(item).rstrip("/").rpartition("/")[2] for item in self.files.ls(self.path, detail=False)]
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def folder(self, number: int) -> str:
        return f"{self.path}/{number}"


def join(root: Path, url: str) -> None:
    """Makes the root's next number higher than any that a new mirror has.

    Raises:
        PushError: the mirror cannot be reached.
    """
    if url in _recorded(root):
        return
    with _failures_named(url):
        taken = _open(url).versions()
    root.mkdir(parents=True, exist_ok=True)
    serving_root.raise_floor(root, max(taken, default=0))
    with _exclusive(root):
        _write(root, {**_recorded(root), url: []})


def mirrors_of(root: Path) -> list[str]:
    """The mirrors that follow a root."""
    return sorted(_recorded(root))


def follow(root: Path, urls: Sequence[str] | None = None) -> list[str]:
    """Copies the version in service to mirrors, and takes away there what is not to be served.

    Args:
        root: `serving/<model>`.
        urls: mirrors of this root; None for all of them.

    Returns:
        What was done, in sentences.

    Raises:
        PushError: a mirror cannot be reached or written; what was not yet done there is not.
    """
    done: list[str] = []
    for url in mirrors_of(root) if urls is None else urls:
        with _exclusive(root), _failures_named(url):
            done += _follow(root, _open(url))
    return done


def add(root: Path, number: int, name: str) -> list[str]:
    """Copies one more file of a version to the mirrors that have the version, which stays in service.

    Args:
        root: `serving/<model>`.
        number: the version.
        name: of the file, in the version's folder.

    Returns:
        What was done, in sentences.

    Raises:
        PushError: a mirror cannot be reached or written.
    """
    folder, done = serving_root.folder_of(root, number) or root, []
    for url, numbers in _recorded(root).items():
        if number in numbers:
            with _exclusive(root), _failures_named(url):
                mirror = _open(url)
                mirror.files.put_file(str(folder / name), f"{mirror.folder(number)}/{name}")
            done.append(f"{name} of version {number} copied to {url}")
    return done


def _follow(root: Path, mirror: _Mirror) -> list[str]:
    ours = set(_recorded(root).get(mirror.url, ()))
    there = set(mirror.versions())
    done = []
    current = serving_root.in_service(root)
    if current is not None and not (current in ours & there and _whole(root, mirror, current)):
        if current in there - ours:
            raise PushError(
                f"Version {current} is there already, and is not of this serving root",
                place=mirror.folder(current),
                remedy="Give every model and workspace a destination of its own.",
            )
        # Noted before the copy: one that is cut short is ours to mend.
        ours.add(current)
        _note(root, mirror.url, ours)
        folder = serving_root.folder_of(root, current) or root
        _copy_configuration(folder, mirror)
        _copy(folder, mirror, current)
        done.append(f"version {current} copied to {mirror.url}")
    elif current is not None:
        # Put back in service by a rollback: a newer version's may lie there.
        _copy_configuration(serving_root.folder_of(root, current) or root, mirror)
    for number in sorted(ours - set(serving_root.versions(root)), reverse=True):
        if number in there:
            _take_away(mirror, number)
            done.append(f"version {number} taken away from {mirror.url}")
        ours.discard(number)
        _note(root, mirror.url, ours)
    return done


def _whole(root: Path, mirror: _Mirror, number: int) -> bool:
    folder = serving_root.folder_of(root, number) or root
    return all(
        mirror.files.exists(target) and mirror.files.size(target) == source.stat().st_size
        for source, target in _pairs(folder, mirror.folder(number))
    )


def _copy(folder: Path, mirror: _Mirror, number: int) -> None:
    target = mirror.folder(number)
    if not _renames(mirror):
        _upload(mirror, folder, target)
        return
    staging = f"{mirror.path}/{_STAGING}"
    staged = f"{staging}/{number}"
    for leftover in (staged, target):
        if mirror.files.exists(leftover):
            mirror.files.rm(leftover, recursive=True)
    _upload(mirror, folder, staged)
    mirror.files.mv(staged, target, recursive=True)
    with contextlib.suppress(OSError):
        mirror.files.rmdir(staging)


def _copy_configuration(folder: Path, mirror: _Mirror) -> None:
    """Triton's, which lies beside the versions; it must be there before a version is."""
    if (folder / CONFIG_FILE).exists():
        mirror.files.makedirs(mirror.path, exist_ok=True)
        mirror.files.put_file(str(folder / CONFIG_FILE), f"{mirror.path}/{CONFIG_FILE}")


def _upload(mirror: _Mirror, folder: Path, target: str) -> None:
    for source, path in _pairs(folder, target):
        mirror.files.makedirs(path.rpartition("/")[0], exist_ok=True)
        mirror.files.put_file(str(source), path)
        written = mirror.files.size(path)
        if written != source.stat().st_size:
            raise PushError(
                f"A copy has {written} bytes; expected {source.stat().st_size}",
                place=path,
                remedy="Make room there, and run again.",
            )


def _take_away(mirror: _Mirror, number: int) -> None:
    folder = mirror.folder(number)
    for name in MODEL_FILES:
        if mirror.files.exists(f"{folder}/{name}"):
            mirror.files.rm_file(f"{folder}/{name}")
    if mirror.files.exists(folder):
        mirror.files.rm(folder, recursive=True)


def _pairs(folder: Path, target: str) -> Iterator[tuple[Path, str]]:
    """Each file of a version with its place in the mirror, the model's own last."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in sorted(files, key=lambda path: path.parent == folder and path.name in MODEL_FILES):
        yield path, f"{target}/{path.relative_to(folder).as_posix()}"


def _renames(mirror: _Mirror) -> bool:
    """Whether a folder's rename is one step there; object stores copy file by file."""
    protocol = mirror.files.protocol
    return bool(
        {"file", "local", "sftp", "ssh", "hdfs"} & {*([protocol] if isinstance(protocol, str) else protocol)}
    )


def _open(url: str) -> _Mirror:
    import fsspec

    files, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    return _Mirror(url, files, str(path).rstrip("/"))


@contextlib.contextmanager
def _failures_named(url: str) -> Iterator[None]:
    try:
        yield
    except PushError:
        raise
    except _FAILURES as error:
        raise PushError(
            f"A copy of the model could not be made: {' '.join(str(error).split()) or type(error).__name__}",
            place=url,
            remedy="See that the address is right and may be written with the environment's credentials; "
            "s3:// and gs:// need the extra of that name (pip install headrace[s3]). Then run again.",
        ) from error


def _recorded(root: Path) -> dict[str, list[int]]:
    """Mirror -> the versions that this root put there."""
    path = root / _RECORD
    if not path.exists():
        return {}
    found: Mapping[str, list[int]] = json.loads(path.read_text())
    return dict(found)


def _note(root: Path, url: str, numbers: set[int]) -> None:
    _write(root, {**_recorded(root), url: sorted(numbers)})


def _write(root: Path, record: Mapping[str, Sequence[int]]) -> None:
    serving_root.write_whole(root / _RECORD, json.dumps(record, indent=1, sort_keys=True))


@contextlib.contextmanager
def _exclusive(root: Path) -> Iterator[None]:
    """One process at a time; apart from the root's own lock, since a copy may take minutes."""
    descriptor = os.open(root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

"""Puts a version folder into a serving root, whole or not at all.

    version = push(Path("artifacts/.../Format-Serving"), Path("serving/digits"), stamp={...})

The copy is made in a hidden folder beside the versions, flushed to disk, and
renamed to its number: a server that watches the root sees nothing or all.
Renaming to an existing number fails, so two pushes at once get two numbers.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from components.errors import PushError

_STAGING = ".staging"
_HIGHEST = ".highest-version"
STAMP_FILE = Path("assets.extra", "mlmd_uuid")
"""Where TensorFlow Serving looks for the origin of a model."""


def versions(root: Path) -> list[int]:
    """The version numbers in a serving root, ascending."""
    if not root.is_dir():
        return []
    return sorted(int(path.name) for path in root.iterdir() if path.name.isdigit() and path.is_dir())


def push(source: Path, root: Path, stamp: Mapping[str, str]) -> int:
    """Copies `source` to the next version of `root`.

    Args:
        source: a version folder.
        root: `serving/<model>`; made when missing.
        stamp: what `assets.extra/mlmd_uuid` says, as JSON.

    Returns:
        The version's number, higher than any that this root ever had.

    Raises:
        PushError: the root cannot be written; it is as it was.
    """
    try:
        staging = root / _STAGING
        staging.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=staging) as scratch:
            staged = Path(scratch, "version")
            shutil.copytree(source, staged)
            _write_stamp(staged, stamp)
            _flush(staged)
            return _take_number(staged, root)
    except OSError as error:
        raise PushError(
            f"The model could not be pushed: {error.strerror or error}",
            place=str(error.filename or root),
            remedy="Make the serving root writable, with room for the model, and run again.",
        ) from error


def _write_stamp(staged: Path, stamp: Mapping[str, str]) -> None:
    path = staged / STAMP_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(stamp, sort_keys=True))


def _flush(folder: Path) -> None:
    """Forces the copy to disk: after a power cut a renamed folder must not hold empty files."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())


def _take_number(staged: Path, root: Path) -> int:
    number = _highest(root) + 1
    while True:
        try:
            # Fails when the target is a folder with anything in it.
            staged.rename(root / str(number))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            number += 1
        else:
            _remember(root, number)
            return number


def _highest(root: Path) -> int:
    """The highest number ever given, so that one that was removed is not given again."""
    file = root / _HIGHEST
    remembered = int(file.read_text() or 0) if file.exists() else 0
    return max([remembered, *versions(root)])


def _remember(root: Path, number: int) -> None:
    highest = max(number, _highest(root))
    descriptor, name = tempfile.mkstemp(dir=root / _STAGING)
    with os.fdopen(descriptor, "w") as file:
        file.write(str(highest))
    Path(name).rename(root / _HIGHEST)

"""Which files an experiment reads, and a digest of their contents."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Sequence
from pathlib import Path

from pipelines.config import Data
from pipelines.datasets import digits
from pipelines.errors import InputError
from pipelines.workspace import Workspace

_SUFFIXES = {"tfrecord": (".tfrecord", ".tfrecords", ".tfrec", ".gz")}
_CHUNK = 1 << 20


def files_of(data: Data, workspace: Workspace) -> list[Path]:
    """The files that an experiment reads, sorted; a data set that ships is written first.

    Raises:
        InputError: the path does not exist, or holds no file of the format.
    """
    if data.source == "digits":
        return _in_folder(digits.write(workspace.data / "digits"), data.format)
    assert data.path is not None  # the schema sees to it
    path = Path(data.path).expanduser()
    if path.is_dir():
        return _in_folder(path.absolute(), data.format)
    if path.is_file():
        return [path.absolute()]
    matches = sorted(Path(name).absolute() for name in glob.glob(str(path), recursive=True))
    found = [match for match in matches if match.is_file()]
    if not found:
        raise InputError(
            "The data path does not exist", place=data.path, remedy="Check data.path (--set data.path=...)."
        )
    return found


def _in_folder(folder: Path, data_format: str) -> list[Path]:
    suffixes = _SUFFIXES[data_format]
    found = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in suffixes)
    if not found:
        others = sum(1 for path in folder.iterdir() if path.is_file())
        raise InputError(
            f"The data folder holds no {data_format} files ({others} other files)",
            place=str(folder),
            remedy=f"Files should end in {', '.join(suffixes)}; a file of another name is given by its path.",
        )
    return found


def digest(files: Sequence[Path]) -> str:
    """SHA-256 over the names and contents of files.

    Raises:
        InputError: a file cannot be read.
    """
    total = hashlib.sha256()
    for path in files:
        try:
            total.update(f"{path.name}\0{_file_digest(path)}\n".encode())
        except OSError as error:
            raise InputError(
                f"A data file cannot be read: {error.strerror}",
                place=str(path),
                remedy="Check its permissions.",
            ) from error
    return total.hexdigest()


def _file_digest(path: Path) -> str:
    one = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            one.update(chunk)
    return one.hexdigest()

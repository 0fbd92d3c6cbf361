"""`assets.extra/headrace.json` in a pushed version: what it is, where it came from, what it must answer.

    write(folder, {"run": "digits-..."})     # adds the digest of every file
    faults(folder)                           # files that are missing, or not as they were pushed

Standard library only, so that a command answers at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.errors import ServableError
from components.serving.servable import Servable

PATH = Path("assets.extra", "headrace.json")
FORMAT = 1


def write(folder: Path, contents: Mapping[str, Any]) -> None:
    """Writes the manifest of a version folder that is otherwise complete."""
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": digest(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / PATH
    }
    target = folder / PATH
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps({"format": FORMAT, **contents, "files": files}, indent=1))


def read(folder: Path) -> dict[str, Any]:
    """The manifest of a version folder.

    Raises:
        ServableError: it is missing or not understood.
    """
    path = folder / PATH
    try:
        found = json.loads(path.read_text())
        if found["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT}; received {found['format']}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ServableError(
            f"A version's manifest cannot be read: {error}",
            place=str(path),
            remedy="Push the model again; versions that others pushed have none.",
        ) from error
    return dict(found)


def servable_of(folder: Path) -> Servable:
    """How a pushed version is loaded and called.

    Raises:
        ServableError: the manifest is missing or not understood.
    """
    try:
        return Servable.from_json(read(folder)["servable"])
    except (KeyError, TypeError) as error:
        raise ServableError(
            f"A version's manifest does not say how it is called: {error}", place=str(folder / PATH)
        ) from error


def faults(folder: Path, *, contents: bool = True) -> list[str]:
    """What of a version is not as it was pushed, as sentences.

    Args:
        folder: the version's folder.
        contents: compare digests, which reads every byte; else sizes only.

    Raises:
        ServableError: the manifest is missing or not understood.
    """
    found = []
    for name, expected in read(folder)["files"].items():
        path = folder / name
        if not path.is_file():
            found.append(f"{name} is missing")
        elif path.stat().st_size != expected["bytes"]:
            found.append(f"{name} has {path.stat().st_size} bytes; expected {expected['bytes']}")
        elif contents and digest(path) != expected["sha256"]:
            found.append(f"the contents of {name} have changed")
    return found


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

"""Copies of files of other file systems, kept by their contents.

    folder = copy(Place(files, "bucket/photos", "s3://bucket/photos"), {"a.jpg": info}, cache)

A copy is `<cache>/<digest>/`, `<digest>.json` beside it says of what, and
`index.db` which address was last seen with which token.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from components.example_gen.origins import DIGEST_CHARACTERS, without_secrets
from pipelines import digests

_SCHEMA = """CREATE TABLE IF NOT EXISTS files (
  url TEXT PRIMARY KEY, token TEXT NOT NULL, sha256 TEXT NOT NULL, path TEXT NOT NULL)"""


@dataclass(frozen=True)
class Place:
    """A folder of a file system: `base` there, `url` as it is recorded."""

    files: Any
    base: str
    url: str

    def path(self, name: str) -> str:
        return f"{self.base}/{name}"


def copy(place: Place, infos: Mapping[str, Mapping[str, Any]], cache: Path, *, single: bool = False) -> Path:
    """The folder with copies of files, by their names below `place`."""
    cache.mkdir(parents=True, exist_ok=True)
    addresses = {name: _address(place, name, single=single) for name in infos}
    with _exclusive(cache), _Index(cache) as index:
        known = {
            name: row
            for name, info in infos.items()
            if (row := index.get(addresses[name], token_of(info))) is not None
        }
        folder = cache / _digest(place.url, {name: row.sha256 for name, row in known.items()})
        if len(known) < len(infos) or not _is_whole(
            folder, {name: row.sha256 for name, row in known.items()}
        ):
            folder, found = _copied(place, known, list(infos), cache, single=single)
            rows = [
                (addresses[name], token_of(info), found[name], str(folder / name))
                for name, info in infos.items()
            ]
            index.put(rows)
        os.utime(folder)  # what nobody has asked for goes first
    return folder


def _copied(
    place: Place, known: Mapping[str, _Row], names: Sequence[str], cache: Path, *, single: bool
) -> tuple[Path, dict[str, str]]:
    """A new folder, or one with those contents that is there already; and name -> digest."""
    with tempfile.TemporaryDirectory(dir=cache, prefix=".staging-") as scratch:
        staged = Path(scratch, "files")
        _fill(staged, place, known, names, single=single)
        found = dict(zip(names, digests.of_files([staged / name for name in names]), strict=True))
        folder = cache / _digest(place.url, found)
        if _is_whole(folder, found):
            return folder, found
        if folder.exists():
            folder.rename(Path(scratch, "altered"))
        told = {"url": _recorded(place.url, single=single)}
        folder.with_suffix(".json").write_text(json.dumps(told))
        staged.rename(folder)
        return folder, found


def _is_whole(folder: Path, found: Mapping[str, str]) -> bool:
    """Whether a folder holds those contents under those names, and nothing else."""
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    if there.keys() != found.keys() or not there:
        return False
    with contextlib.suppress(OSError):
        return digests.of_files([there[name] for name in found]) == list(found.values())
    return False


def _fill(
    staged: Path, place: Place, known: Mapping[str, _Row], names: Sequence[str], *, single: bool
) -> None:
    """Links what is known to be the same, and transfers the rest, several files at a time."""
    missing: dict[str, str] = {}
    for name in names:
        target = staged / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name not in known or not _linked(known[name], target):
            missing[place.base if single else place.path(name)] = str(target)
    if missing:
        _transfer(place.files, missing)
    for path in missing.values():
        Path(path).chmod(0o444)  # links of one file share it


def _transfer(files: Any, missing: Mapping[str, str]) -> None:
    """Path there -> path here."""
    files.get(list(missing), list(missing.values()))


def _linked(row: _Row, target: Path) -> bool:
    """Whether a file that was fetched before is as it was, and now has a second name."""
    try:
        if digests.of_file(row.path) != row.sha256:
            return False
        os.link(row.path, target)
    except OSError:
        return False
    return True


def token_of(info: Mapping[str, Any]) -> str:
    """What changes when a file's contents do, as its store vouches; empty where it does not.

    Entity tags may be weak, which says no more than that a page looks the same,
    and a time of change may stay when contents change within a second; neither
    counts.
    """
    tag = str(info.get("ETag") or info.get("etag") or "")
    generation = str(info.get("generation") or "")
    if (not tag or tag.startswith("W/")) and not generation:
        return ""
    times = [str(info[key]) for key in ("LastModified", "mtime", "updated") if info.get(key)]
    return "|".join([tag, generation, str(info.get("size")), *times[:1]])


def _address(place: Place, name: str, *, single: bool) -> str:
    return without_secrets(place.url) if single else f"{_recorded(place.url, single=False)}/{name}"


def _recorded(url: str, *, single: bool) -> str:
    """The folder's address, as it is recorded."""
    plain = without_secrets(url).rstrip("/")
    return plain.rpartition("/")[0] if single else plain


def _digest(url: str, found: Mapping[str, str]) -> str:
    total = hashlib.sha256(without_secrets(url).encode())
    for name in sorted(found):
        total.update(f"\0{name}\0{found[name]}".encode())
    return total.hexdigest()[:DIGEST_CHARACTERS]


class _Row(NamedTuple):
    """What was fetched: its digest, and where it is."""

    sha256: str
    path: Path


class _Index:
    """Which address was last seen with which token, and where its copy is."""

    def __init__(self, cache: Path) -> None:
        self._rows = sqlite3.connect(cache / "index.db", timeout=10, isolation_level=None)
        # A lost row is a transfer more, so the disk need not be waited for.
        self._rows.execute("PRAGMA synchronous=OFF")
        self._rows.execute(_SCHEMA)

    def __enter__(self) -> _Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()

    def get(self, url: str, token: str) -> _Row | None:
        """What was fetched with that token; None where there is no token, or it was another."""
        if not token:
            return None
        row = self._rows.execute("SELECT token, sha256, path FROM files WHERE url = ?", (url,)).fetchone()
        return _Row(row[1], Path(row[2])) if row is not None and row[0] == token else None

    def put(self, rows: Sequence[tuple[str, str, str, str]]) -> None:
        """Notes address, token, digest and path of files."""
        self._rows.execute("BEGIN")
        self._rows.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", rows)
        self._rows.execute("COMMIT")


@contextlib.contextmanager
def _exclusive(cache: Path) -> Iterator[None]:
    """One process at a time, so that nothing is transferred twice."""
    descriptor = os.open(cache / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

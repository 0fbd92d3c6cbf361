"""Files that lie elsewhere (s3://, gs://, https:// and what else fsspec knows), as local copies.

    folder = fetch("s3://bucket/photos/", workspace.fetched, everything)
    file = fetch("https://example.com/trips.csv", workspace.fetched, everything)

A copy is a folder under a digest of its contents, and never changes: a run goes
on with what it began with, and the same contents are the same path. What is
there already is not transferred again where the store vouches for it by a
strong entity tag or a generation; else it is, and its contents decide.
`.json` beside the folder says where it came from.
"""

from __future__ import annotations

import contextlib
import contextvars
import fcntl
import hashlib
import json
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from components.example_gen.origins import DIGEST_CHARACTERS
from components.example_gen.origins import without_secrets as without_secrets
from pipelines import digests
from pipelines.remote_failures import failures_named

Wanted = Callable[[Sequence[str]], Sequence[str]]
"""Names below a folder -> those that are fetched."""

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_SCHEMA = """CREATE TABLE IF NOT EXISTS files (
  url TEXT PRIMARY KEY, token TEXT NOT NULL, sha256 TEXT NOT NULL, path TEXT NOT NULL)"""
_held: contextvars.ContextVar[dict[tuple[str, str], Path] | None] = contextvars.ContextVar(
    "held", default=None
)


def everything(names: Sequence[str]) -> Sequence[str]:
    """Every name."""
    return names


def is_remote(path: str) -> bool:
    """Whether a path is an address of a file system other than the local one."""
    match = _URL.match(path)
    return match is not None and match["scheme"].lower() not in ("file", "local")


def expanded(path: str) -> str:
    """A path with the home folder for `~`; an address as it is."""
    return path if is_remote(path) else str(Path(path.removeprefix("file://")).expanduser())


@contextlib.contextmanager
def held() -> Iterator[None]:
    """In the block, what was fetched once is not looked up again."""
    token = _held.set({})
    try:
        yield
    finally:
        _held.reset(token)


@dataclass(frozen=True)
class _Place:
    """A folder of a file system: `base` there, `url` as it is recorded."""

    files: Any
    base: str
    url: str

    def path(self, name: str) -> str:
        return f"{self.base}/{name}"


def fetch(url: str, cache: Path, wanted: Wanted) -> Path:
    """A local copy of a file, or of a folder and what is wanted of all that is below it.

    Args:
        url: an address; over http(s) one that ends in / is a folder.
        cache: where copies are kept; made when missing.
        wanted: chooses among the names below a folder.

    Returns:
        The file, or the folder.

    Raises:
        InputError: nothing is there, or it cannot be reached or read; or nothing of it is wanted.
    """
    known = _held.get()
    key = (url, repr(wanted))
    if known is not None and key in known:
        return known[key]
    with failures_named(url):
        files, path = _open(url)
        if _is_file(files, url, path):
            name = _last_name(url)
            found = _copy(_Place(files, path, url), {name: files.info(path)}, cache, single=True) / name
        else:
            listed = _below(files, path)
            chosen = wanted(sorted(listed))
            if not chosen:
                raise FileNotFoundError(f"nothing that can be used is below {without_secrets(url)}")
            found = _copy(
                _Place(files, path.rstrip("/"), url), {name: listed[name] for name in chosen}, cache
            )
    if known is not None:
        known[key] = found
    return found


def fetch_names(url: str, names: Sequence[str], cache: Path) -> Path:
    """A local copy of the named files below a folder; returns the folder.

    Raises:
        InputError: see `fetch`.
    """
    with failures_named(url):
        files, path = _open(url)
        base = path.rstrip("/")
        infos = {name: files.info(f"{base}/{_safe(name)}") for name in names}
        return _copy(_Place(files, base, url), infos, cache)


def fetch_matches(pattern: str, cache: Path, wanted: Wanted) -> list[Path]:
    """Local copies of all files and folders that match a pattern with `*`, `?` and `**`, sorted.

    Raises:
        InputError: see `fetch`.
    """
    fixed = pattern[: re.search(r"[*?\[]", pattern).start()].rpartition("/")[0]  # type: ignore[union-attr]
    with failures_named(pattern):
        files, path = _open(pattern)
        found = files.glob(path, detail=True)
        if not found:
            raise FileNotFoundError("no file matches")
        base = str(files._strip_protocol(fixed)).rstrip("/")
        names = {str(address)[len(base) :].lstrip("/"): info for address, info in found.items()}
        inside = {_safe(name.rstrip("/")): info for name, info in names.items() if not _hidden(name)}
        single = {name: info for name, info in inside.items() if info["type"] == "file"}
        folder = _copy(_Place(files, base, fixed), single, cache) if single else cache
    folders = {name: fetch(f"{fixed}/{name}/", cache, wanted) for name in inside if name not in single}
    return [folders.get(name) or folder / name for name in sorted(inside)]


def listed(pattern: str) -> list[str]:
    """The addresses of all files and folders that match a pattern with `*`, `?` and `**`, sorted.

    Raises:
        InputError: see `fetch`.
    """
    scheme = pattern.partition("://")[0]
    with failures_named(pattern):
        files, path = _open(pattern)
        found = files.glob(path)
    return sorted(
        address if _URL.match(address) else f"{scheme}://{address.lstrip('/')}" for address in found
    )


def _open(url: str) -> tuple[Any, str]:
    # gcsfs asks by gRPC for kinds of buckets that are new; nodes are forked from this process,
    # which its channels do not survive.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    import fsspec

    files, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    return files, str(path)


def _is_file(files: Any, url: str, path: str) -> bool:
    if url.lower().startswith(("http://", "https://")):
        return not urlsplit(url).path.endswith("/")
    return str(files.info(path)["type"]) == "file"


def _last_name(url: str) -> str:
    return _safe(PurePosixPath(urlsplit(url).path).name or urlsplit(url).netloc)


def _below(files: Any, path: str) -> dict[str, Mapping[str, Any]]:
    """Name below a folder -> what the file system says of the file."""
    base = path.rstrip("/")
    found = {}
    for address, info in files.find(path, detail=True).items():
        name = str(address)[len(base) :].lstrip("/")
        if info["type"] == "file" and name and not _hidden(name):
            found[_safe(name)] = info
    return found


def _hidden(name: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in name.split("/"))


def _safe(name: str) -> str:
    """A name that stays below the folder it is put in: others choose names in a store."""
    parts = name.split("/")
    if not name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"a name leads out of its folder: {name!r}")
    return name


def _copy(
    place: _Place, infos: Mapping[str, Mapping[str, Any]], cache: Path, *, single: bool = False
) -> Path:
    """The folder with copies of files, by their names below `place`."""
    cache.mkdir(parents=True, exist_ok=True)
    with _exclusive(cache), _Index(cache) as index:
        with tempfile.TemporaryDirectory(dir=cache, prefix=".staging-") as scratch:
            staged = Path(scratch, "files")
            _fill(staged, place, infos, index, single=single)
            found = dict(zip(infos, digests.of_files([staged / name for name in infos]), strict=True))
            folder = cache / _digest(place.url, found)
            if not folder.exists():
                told = {"url": _recorded(place.url, single=single)}
                folder.with_suffix(".json").write_text(json.dumps(told))
                staged.rename(folder)
        os.utime(folder)  # what nobody has asked for goes first
        for name, info in infos.items():
            index.put(_address(place, name, single=single), token_of(info), found[name], folder / name)
    return folder


def _fill(
    staged: Path, place: _Place, infos: Mapping[str, Mapping[str, Any]], index: _Index, *, single: bool
) -> None:
    """Links what is known to be the same, and transfers the rest, several files at a time."""
    missing: dict[str, str] = {}
    for name, info in infos.items():
        target = staged / name
        target.parent.mkdir(parents=True, exist_ok=True)
        before = index.get(_address(place, name, single=single), token_of(info))
        if before is None or not _linked(before, target):
            missing[place.base if single else place.path(name)] = str(target)
    if missing:
        _transfer(place.files, missing)
    for name in infos:
        (staged / name).chmod(0o444)  # links of one file share it


def _transfer(files: Any, missing: Mapping[str, str]) -> None:
    """Path there -> path here."""
    files.get(list(missing), list(missing.values()))


def _linked(path: Path, target: Path) -> bool:
    try:
        os.link(path, target)
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


def _address(place: _Place, name: str, *, single: bool) -> str:
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


class _Index:
    """Which address was last seen with which token, and where its copy is."""

    def __init__(self, cache: Path) -> None:
        self._rows = sqlite3.connect(cache / "index.db", timeout=10, isolation_level=None)
        self._rows.execute(_SCHEMA)

    def __enter__(self) -> _Index:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()

    def get(self, url: str, token: str) -> Path | None:
        """The copy of what has that token, if it is still as it was fetched."""
        row = self._rows.execute("SELECT token, sha256, path FROM files WHERE url = ?", (url,)).fetchone()
        if not token or row is None or row[0] != token:
            return None
        path = Path(row[2])
        with contextlib.suppress(OSError):
            return path if digests.of_file(path) == row[1] else None
        return None

    def put(self, url: str, token: str, sha256: str, path: Path) -> None:
        self._rows.execute(
            "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)", (url, token, sha256, str(path))
        )


@contextlib.contextmanager
def _exclusive(cache: Path) -> Iterator[None]:
    """One process at a time, so that nothing is transferred twice."""
    descriptor = os.open(cache / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def read(url: str) -> bytes:
    """The contents of a small file.

    Raises:
        InputError: see `fetch`.
    """
    with failures_named(url):
        files, path = _open(url)
        return bytes(files.cat_file(path))


def is_there(url: str) -> bool:
    """Whether a file or folder is at an address.

    Raises:
        InputError: it cannot be reached or read.
    """
    with failures_named(url):
        files, path = _open(url)
        return bool(files.exists(path))


@contextlib.contextmanager
def written(target: str) -> Iterator[Path]:
    """A local place for what is to go to `target`, a path or an address, when the block ends well.

    Raises:
        InputError: it cannot be written.
    """
    if not is_remote(target):
        yield Path(expanded(target))
        return
    with tempfile.TemporaryDirectory(prefix="headrace-") as scratch:
        made = Path(scratch, PurePosixPath(urlsplit(target).path).name or "made")
        yield made
        with failures_named(target):
            files, path = _open(target)
            for source in sorted(made.rglob("*")) if made.is_dir() else [made]:
                if source.is_file():
                    place = (
                        path
                        if source == made
                        else f"{path.rstrip('/')}/{source.relative_to(made).as_posix()}"
                    )
                    files.makedirs(place.rpartition("/")[0], exist_ok=True)
                    files.put_file(str(source), place)

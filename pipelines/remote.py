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
import functools
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from components.example_gen.origins import without_secrets as without_secrets
from pipelines.remote_copies import Place, copy, token_of
from pipelines.remote_failures import failures_named

Wanted = Callable[[Sequence[str]], Sequence[str]]
"""Names below a folder -> those that are fetched."""

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_held: contextvars.ContextVar[dict[object, Any] | None] = contextvars.ContextVar("held", default=None)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


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


def _once(work: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """In a `held` block, the same call gives what it gave before."""

    @functools.wraps(work)
    def call(*args: Arguments.args, **settings: Arguments.kwargs) -> Result:
        known, key = _held.get(), (work.__name__, repr(args), repr(settings))
        if known is None:
            return work(*args, **settings)
        if key not in known:
            known[key] = work(*args, **settings)
        found: Result = known[key]
        return found

    return call


@_once
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
    with failures_named(url):
        files, path = _open(url)
        if _is_file(files, url, path):
            name = _last_name(url)
            return copy(Place(files, path, url), {name: files.info(path)}, cache, single=True) / name
        found = _below(files, path)
        chosen = wanted(sorted(found))
        if not chosen:
            raise FileNotFoundError(f"nothing that can be used is below {without_secrets(url)}")
        return copy(Place(files, path.rstrip("/"), url), {name: found[name] for name in chosen}, cache)


@_once
def fetch_names(url: str, names: Sequence[str], cache: Path) -> Path:
    """A local copy of the named files below a folder; returns the folder.

    Raises:
        InputError: see `fetch`.
    """
    with failures_named(url):
        files, path = _open(url)
        base = path.rstrip("/")
        infos = {name: files.info(f"{base}/{_safe(name)}") for name in names}
        return copy(Place(files, base, url), infos, cache)


@_once
def fetch_matches(pattern: str, cache: Path, wanted: Wanted) -> list[Path]:
    """Local copies of all files and folders that match a pattern with `*`, `?` and `**`, sorted.

    Raises:
        InputError: see `fetch`.
    """
    fixed = pattern[: re.search(r"[*?\[]", pattern).start()].rpartition("/")[0]  # type: ignore[union-attr]
    with failures_named(pattern):
        files, path = _open(pattern)
        found = files.glob(path, detail=True, **_strict(files))
        if not found:
            raise FileNotFoundError("no file matches")
        base = str(files._strip_protocol(fixed)).rstrip("/")
        names = {str(address)[len(base) :].lstrip("/"): info for address, info in found.items()}
        inside = {_safe(name.rstrip("/")): info for name, info in names.items() if not _hidden(name)}
        single = {name: info for name, info in inside.items() if info["type"] == "file"}
        folder = copy(Place(files, base, fixed), single, cache) if single else cache
    folders = {name: fetch(f"{fixed}/{name}/", cache, wanted) for name in inside if name not in single}
    return [folders.get(name) or folder / name for name in sorted(inside)]


@_once
def listed(pattern: str) -> list[str]:
    """The addresses of all files and folders that match a pattern with `*`, `?` and `**`, sorted.

    Raises:
        InputError: see `fetch`.
    """
    scheme = pattern.partition("://")[0]
    with failures_named(pattern):
        files, path = _open(pattern)
        found = files.glob(path, **_strict(files))
    return sorted(
        address if _URL.match(address) else f"{scheme}://{address.lstrip('/')}" for address in found
    )


def state(url: str) -> str:
    """Which versions of its files lie at an address, without reading them; any change of one changes it.

    Raises:
        InputError: see `fetch`.
    """
    with failures_named(url):
        files, path = _open(url)
        infos = {"": files.info(path)} if _is_file(files, url, path) else _below(files, path)
        return "\n".join(
            f"{name} {info.get('size')} {token_of(info)}" for name, info in sorted(infos.items())
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
    for address, info in files.find(path, detail=True, **_strict(files)).items():
        name = str(address)[len(base) :].lstrip("/")
        if info["type"] == "file" and name and not _hidden(name):
            found[_safe(name)] = info
    return found


def _strict(files: Any) -> dict[str, str]:
    """What makes listing folders one by one fail where one cannot be listed, and not leave it out.

    Stores that list all names at once fail by themselves.
    """
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    if isinstance(files, AsyncFileSystem):
        walks = type(files)._find is AsyncFileSystem._find
    else:
        walks = type(files).find is AbstractFileSystem.find
    return {"on_error": "raise"} if walks else {}


def _hidden(name: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in name.split("/"))


def _safe(name: str) -> str:
    """A name that stays below the folder it is put in: others choose names in a store."""
    parts = name.split("/")
    if not name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"a name leads out of its folder: {name!r}")
    return name


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

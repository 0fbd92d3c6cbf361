"""Copies of what lies elsewhere: what is transferred, when again, and what is said where it fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec.registry import _registry as fsspec_registry

from components.example_gen import origins
from pipelines import remote, remote_copies, remote_failures
from pipelines.errors import InputError
from tests import stores

FILES = {"a/1.png": b"one", "b/2.png": b"two", "t.csv": b"x,y\n1,2\n", ".hidden/x": b"no"}


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, str]]:
    """Every store, with a bucket in it: scheme -> address of a folder."""
    with stores.s3(), stores.google():
        for scheme in ("s3", "gs"):
            fsspec.filesystem(scheme).mkdir("bucket")
        yield {scheme: f"{scheme}://bucket" for scheme in ("memory", "s3", "gs")}


@pytest.fixture(params=["memory", "s3", "gs"])
def folder(request, running, tmp_path) -> str:
    """The address of a folder with FILES."""
    url = f"{running[request.param]}/{tmp_path.name}"
    for name, content in FILES.items():
        put(f"{url}/{name}", content)
    return url


@pytest.fixture
def transfers(monkeypatch) -> list[str]:
    """Names of what was transferred, in order."""
    seen: list[str] = []
    transfer = remote_copies._transfer

    def watched(files, missing) -> None:
        seen.extend(sorted(path.rpartition("/")[2] for path in missing))
        transfer(files, missing)

    monkeypatch.setattr(remote_copies, "_transfer", watched)
    return seen


def put(url: str, content: bytes) -> None:
    files, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    files.pipe_file(path, content)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_without_what_is_hidden(folder, tmp_path) -> None:
    found = remote.fetch(folder, tmp_path / "fetched", remote.everything)
    assert contents(found) == {name: content for name, content in FILES.items() if name[0] != "."}
    assert origins.name(str(found / "a" / "1.png")) == f"{folder}/a/1.png"


def test_a_file_and_matches(folder, tmp_path) -> None:
    cache = tmp_path / "fetched"
    file = remote.fetch(f"{folder}/t.csv", cache, remote.everything)
    assert (file.name, file.read_bytes()) == ("t.csv", FILES["t.csv"])
    assert origins.name(str(file)) == f"{folder}/t.csv"
    assert remote.listed(f"{folder}/*/*.png") == [f"{folder}/a/1.png", f"{folder}/b/2.png"]
    found = remote.fetch_matches(f"{folder}/*", cache, remote.everything)
    assert [origins.name(str(path)) for path in found] == [f"{folder}/{name}" for name in ("a", "b", "t.csv")]


def test_only_what_has_changed_is_transferred_again(folder, tmp_path, transfers) -> None:
    cache = tmp_path / "fetched"
    first = remote.fetch(folder, cache, remote.everything)
    assert transfers == ["1.png", "2.png", "t.csv"]
    again = remote.fetch(folder, cache, remote.everything)
    # Only the store in memory vouches for nothing.
    assert transfers[3:] == (["1.png", "2.png", "t.csv"] if folder.startswith("memory") else [])
    assert again == first
    transfers.clear()
    put(f"{folder}/b/2.png", b"new")  # of the same size
    changed = remote.fetch(folder, cache, remote.everything)
    assert changed != first and "2.png" in transfers
    assert (changed / "b" / "2.png").read_bytes() == b"new"
    assert (first / "b" / "2.png").read_bytes() == b"two"
    if not folder.startswith("memory"):
        assert transfers == ["2.png"]


def test_what_is_gone_there_is_gone_here(folder, tmp_path) -> None:
    cache = tmp_path / "fetched"
    remote.fetch(folder, cache, remote.everything)
    files, path = fsspec.core.url_to_fs(folder)
    files.rm_file(f"{path}/a/1.png")
    assert sorted(contents(remote.fetch(folder, cache, remote.everything))) == ["b/2.png", "t.csv"]


def test_the_same_contents_are_the_same_path(folder, tmp_path) -> None:
    cache = tmp_path / "fetched"
    first = remote.fetch(folder, cache, remote.everything)
    put(f"{folder}/t.csv", b"other")
    remote.fetch(folder, cache, remote.everything)
    put(f"{folder}/t.csv", FILES["t.csv"])
    assert remote.fetch(folder, cache, remote.everything) == first


def test_a_copy_that_somebody_altered_is_not_used(folder, tmp_path) -> None:
    cache = tmp_path / "fetched"
    first = remote.fetch(folder, cache, remote.everything)
    (first / "t.csv").chmod(0o644)
    (first / "t.csv").write_bytes(b"mine")
    found = remote.fetch(f"{folder}/t.csv", cache, remote.everything)
    assert found.read_bytes() == FILES["t.csv"]
    again = remote.fetch(folder, cache, remote.everything)
    assert again == first and (again / "t.csv").read_bytes() == FILES["t.csv"]


@pytest.mark.parametrize("name", ["none", "none/"])
def test_nothing_is_there(folder, name: str, tmp_path) -> None:
    with pytest.raises(InputError, match="Nothing is there that can be used") as caught:
        remote.fetch(f"{folder}/{name}", tmp_path / "fetched", remote.everything)
    assert caught.value.place == f"{folder}/{name}"


def test_within_held_nothing_is_looked_up_twice(folder, tmp_path) -> None:
    with remote.held():
        first = remote.fetch(f"{folder}/t.csv", tmp_path / "fetched", remote.everything)
        put(f"{folder}/t.csv", b"later")
        assert remote.fetch(f"{folder}/t.csv", tmp_path / "fetched", remote.everything) == first
    assert remote.fetch(f"{folder}/t.csv", tmp_path / "fetched", remote.everything).read_bytes() == b"later"


def test_what_is_written_arrives_whole_or_not_at_all(folder) -> None:
    with remote.written(f"{folder}/out/a.txt") as file:
        file.write_text("well")
    with pytest.raises(ZeroDivisionError), remote.written(f"{folder}/out/b.txt") as file:
        file.write_text("half")
        raise ZeroDivisionError
    with remote.written(f"{folder}/tree") as made:
        (made / "x").mkdir(parents=True)
        (made / "x" / "y").write_text("deep")
    files, path = fsspec.core.url_to_fs(folder, use_listings_cache=False)
    assert files.cat_file(f"{path}/out/a.txt") == b"well"
    assert files.cat_file(f"{path}/tree/x/y") == b"deep"
    assert not files.exists(f"{path}/out/b.txt")


def test_the_web(tmp_path) -> None:
    (tmp_path / "site").mkdir()
    for name, content in FILES.items():
        (tmp_path / "site" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "site" / name).write_bytes(content)
    cache = tmp_path / "fetched"
    with stores.web(tmp_path / "site") as url:
        file = remote.fetch(f"{url}/t.csv?key=secret", cache, remote.everything)
        assert file.read_bytes() == FILES["t.csv"]
        assert origins.name(str(file)) == f"{url}/t.csv"
        found = remote.fetch(f"{url}/", cache, remote.everything)
        assert sorted(contents(found)) == ["a/1.png", "b/2.png", "t.csv"]
        with pytest.raises(InputError, match="Nothing is there"):
            remote.fetch(f"{url}/none.csv", cache, remote.everything)
    for path in ("t.csv", "", "*.csv"):
        with pytest.raises(remote_failures.UnreachableError):
            work = remote.fetch_matches if "*" in path else remote.fetch
            work(f"{url}/{path}", cache, remote.everything)
    assert "secret" not in "".join(path.read_text() for path in cache.glob("*.json"))


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"ETag": '"a"', "size": 3, "LastModified": "now"}, '"a"||3|now'),
        ({"etag": "b", "generation": "7", "size": 3}, "b|7|3"),
        ({"ETag": 'W/"a"', "size": 3}, ""),
        ({"size": 3, "mtime": 5.0}, ""),
    ],
)
def test_only_strong_tags_vouch(info, expected: str) -> None:
    assert remote_copies.token_of(info) == expected


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/x", "a//x", "", "a\0b"])
def test_names_cannot_lead_out_of_the_copy(name: str) -> None:
    with pytest.raises(ValueError, match="leads out"):
        remote._safe(name)


def error_of(url: str, error: Exception) -> InputError:
    with pytest.raises(InputError) as caught, remote_failures.failures_named(url):
        raise error
    return caught.value


class NoCredentialsError(Exception):
    """As botocore has one."""


class ClientConnectionError(Exception):
    """As aiohttp has one."""


def test_failures_say_what_to_do() -> None:
    missing = error_of("gs://b/x", ImportError("Please install gcsfs"))
    assert missing.remedy == "pip install headrace[gcs]"
    unknown = error_of("s4://b/x", ValueError("Protocol not known: s4"))
    assert (unknown.headline, unknown.remedy) == ("There is no file system s4://", "Did you mean 's3'?")
    keyless = error_of("s3://b/x", NoCredentialsError("Unable to locate credentials"))
    assert keyless.headline.startswith("It may not be read") and "AWS_PROFILE" in keyless.remedy
    assert "GOOGLE_APPLICATION_CREDENTIALS" in error_of("gs://b/x", PermissionError("no")).remedy
    assert error_of("https://u:p@h/x?k=s", OSError(28, "full")).place == "https://h/x"
    assert error_of("s3://b/x", OSError(28, "full")).headline == "The disk has no room for a copy of the data"
    away = FileNotFoundError("x")
    away.__cause__ = ClientConnectionError("refused")
    assert error_of("https://h/x", away).headline.startswith("It cannot be reached")


def test_a_missing_client_is_named(monkeypatch, tmp_path) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(fsspec_registry, "s3", raising=False)
    with pytest.raises(InputError) as caught:
        remote.fetch("s3://bucket/x", tmp_path, remote.everything)
    assert caught.value.remedy == "pip install headrace[s3]"


def test_local_paths_are_none_of_its_business(tmp_path) -> None:
    assert [remote.is_remote(path) for path in ("a/b", "C:/x", "file:///a", "s3://b", "http://h")] == [
        False, False, False, True, True,
    ]  # fmt: skip
    assert remote.expanded("file:///a/b") == "/a/b"
    with remote.written(str(tmp_path / "x")) as file:
        assert file == tmp_path / "x"


def test_the_state_of_an_address_follows_its_files(folder) -> None:
    before = remote.state(folder)
    assert remote.state(folder) == before
    assert remote.state(f"{folder}/t.csv") != before
    put(f"{folder}/b/2.png", b"longer than two")
    assert remote.state(folder) != before
    with pytest.raises(InputError):
        remote.state(f"{folder}/nothing-here")

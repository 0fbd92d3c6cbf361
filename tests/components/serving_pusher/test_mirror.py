"""Copies of a serving root in a folder, in memory and in an object store: what they hold after changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from components.errors import PushError
from components.serving_pusher import mirror, push
from components.serving_pusher import root as serving_root
from components.serving_pusher.root import Withdrawal
from pipelines import operations
from pipelines.workspace import Workspace
from tests import stores

WITHDRAWAL = Withdrawal("rollback", "slow", 1.0)


@pytest.fixture(scope="module")
def object_store() -> Iterator[str]:
    """The address of an S3 server on loopback, with a bucket `models`."""
    with stores.s3() as endpoint:
        fsspec.filesystem("s3").mkdir("models")
        yield endpoint


@pytest.fixture
def source(tmp_path) -> Path:
    folder = tmp_path / "model"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "variables.index").write_bytes(b"index")
    return folder


@pytest.fixture(params=["file", "memory", "s3"])
def url(request, tmp_path) -> str:
    if request.param == "s3":
        request.getfixturevalue("object_store")
        return f"s3://models/{tmp_path.name}/m"
    return f"file://{tmp_path}/mirror/m" if request.param == "file" else f"memory://{tmp_path.name}/m"


def files_at(url: str) -> dict[str, bytes]:
    """Path below the mirror -> contents."""
    files, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    if not files.exists(path):
        return {}
    path = files._strip_protocol(path).rstrip("/")
    return {name[len(path) + 1 :]: files.cat_file(name) for name in files.find(path)}


def versions_at(url: str) -> list[str]:
    return sorted({name.partition("/")[0] for name in files_at(url)})


def test_a_mirror_follows_pushes_rollbacks_and_prunes(source, url, tmp_path) -> None:
    root = tmp_path / "serving" / "m"
    mirror.join(root, url)
    push.push(source, root, {"run": "a"})
    assert mirror.follow(root) == [f"version 1 copied to {url}"]
    expected = {
        f"1/{path.relative_to(root / '1').as_posix()}": path.read_bytes()
        for path in (root / "1").rglob("*")
        if path.is_file()
    }
    assert files_at(url) == expected
    push.push(source, root, {"run": "b"})
    mirror.follow(root)
    assert versions_at(url) == ["1", "2"]
    serving_root.put_in_service(root, 1, WITHDRAWAL)
    assert mirror.follow(root) == [f"version 2 taken away from {url}"]
    assert files_at(url) == expected
    serving_root.put_in_service(root, 2, WITHDRAWAL)
    mirror.follow(root)
    serving_root.remove(root, [1])
    mirror.follow(root)
    assert versions_at(url) == ["2"]
    assert mirror.follow(root) == []


def test_numbers_go_on_from_what_a_mirror_has_and_others_versions_stay(source, url, tmp_path) -> None:
    for owner in ("first", "second"):
        root = tmp_path / owner / "m"
        mirror.join(root, url)
        push.push(source, root, {"run": owner})
        mirror.follow(root)
    assert versions_at(url) == ["1", "2"]
    assert json.loads(files_at(url)["2/assets.extra/mlmd_uuid"]) == {"run": "second"}
    push.push(source, tmp_path / "first" / "m", {"run": "again"})
    with pytest.raises(PushError, match="Version 2 is there already"):
        mirror.follow(tmp_path / "first" / "m")
    assert json.loads(files_at(url)["2/assets.extra/mlmd_uuid"]) == {"run": "second"}


def test_a_copy_that_was_cut_short_is_made_whole(source, url, tmp_path) -> None:
    root = tmp_path / "serving" / "m"
    mirror.join(root, url)
    push.push(source, root, {})
    mirror.follow(root)
    whole = files_at(url)
    files, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    files.rm_file(f"{path}/1/saved_model.pb")
    assert mirror.follow(root) == [f"version 1 copied to {url}"]
    assert files_at(url) == whole


def test_the_model_file_comes_last(source, tmp_path, monkeypatch) -> None:
    root, url = tmp_path / "serving" / "m", f"memory://{tmp_path.name}/order"
    mirror.join(root, url)
    push.push(source, root, {})
    written: list[str] = []
    kind = type(fsspec.filesystem("memory"))
    put = kind.put_file

    def note(self, source, target, *args, **kwargs):
        written.append(target.rpartition("/")[2])
        return put(self, source, target, *args, **kwargs)

    monkeypatch.setattr(kind, "put_file", note)
    mirror.follow(root)
    assert written[-1] == "saved_model.pb"
    assert len(written) == 3


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nosuch://bucket/m", "nosuch"),
        ("file:///proc/nowhere/m", "could not be made"),
    ],
)
def test_a_mirror_that_cannot_be_used(source, tmp_path, url, said) -> None:
    root = tmp_path / "serving" / "m"
    with pytest.raises(PushError) as raised:
        mirror.join(root, url)
        push.push(source, root, {})
        mirror.follow(root)
    assert said in str(raised.value)
    assert raised.value.place == url


def test_rolling_back_names_a_mirror_that_cannot_follow(source, tmp_path) -> None:
    workspace = Workspace.open(tmp_path / "w", create=True)
    root, target = workspace.serving_root("m"), tmp_path / "mirror"
    mirror.join(root, f"file://{target}/m")
    for _ in range(2):
        push.push(source, root, {})
        mirror.follow(root)
    (target / "m").rename(tmp_path / "moved")
    target.rmdir()
    target.write_text("no folder any more")
    with pytest.raises(operations.NotServedError, match=r"Done in the workspace, but not at a mirror"):
        operations.roll_back(workspace, "m", None, "", 9.0)
    assert serving_root.in_service(root) == 1
    target.unlink()
    operations.roll_back(workspace, "m", 1, "", 10.0)
    assert versions_at(f"file://{target}/m") == ["1"]


def test_tritons_configuration_lies_beside_the_versions(source, url, tmp_path) -> None:
    (source / "config.pbtxt").write_text('backend: "onnxruntime"')
    root = tmp_path / "root"
    mirror.join(root, url)
    push.push(source, root, {})
    mirror.follow(root)
    there = files_at(url)
    assert there["config.pbtxt"] == there["1/config.pbtxt"] == b'backend: "onnxruntime"'
    (source / "config.pbtxt").write_text('backend: "tensorrt"')
    push.push(source, root, {})
    mirror.follow(root)
    assert files_at(url)["config.pbtxt"] == b'backend: "tensorrt"'
    serving_root.put_in_service(root, 1, serving_root.Withdrawal("rollback", "slow", 5.0))
    mirror.follow(root)
    assert files_at(url)["config.pbtxt"] == b'backend: "onnxruntime"'

"""Signing, packing and laying out a version, whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import zipfile
from pathlib import Path

import fsspec
import pytest

from components.serving import manifest
from components.serving_pusher import mirror
from pipelines import handing_on
from pipelines.errors import ConfigError, HeadraceError, InputError, NotFoundError, WorkspaceError
from pipelines.workspace import Workspace
from tests import keys
from tests.pipelines.cards.conftest import found, full_view  # noqa: F401 fixtures


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    """Versions 1 and 3 of `m`."""
    opened = Workspace.open(tmp_path / "w", create=True)
    for number in (1, 3):
        folder = opened.serving_root("m") / str(number)
        (folder / "variables").mkdir(parents=True)
        (folder / "saved_model.pb").write_text(f"graph {number}")
        (folder / "variables" / "data").write_text("weights")
        manifest.write(folder, {})
    return opened


@pytest.fixture
def recorded(monkeypatch, found):  # noqa: F811
    """The record says of any version what the cards' tests have."""
    monkeypatch.setattr(handing_on, "record_of", contextlib.nullcontext)
    monkeypatch.setattr(handing_on, "known", lambda source, push: found)
    monkeypatch.setattr(handing_on.query, "find_push", lambda source, model, version: found.push)


@pytest.mark.parametrize(("name", "number"), [("m@1", 1), ("m@3", 3), ("m@latest", 3)])
def test_versions_by_name(name: str, number: int, workspace) -> None:
    assert handing_on.find(workspace, name).folder == workspace.serving_root("m") / str(number)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("m", ConfigError, "Expected MODEL@VERSION"),
        ("m@x", ConfigError, "Expected MODEL@VERSION"),
        ("n@1", NotFoundError, "There is no model 'n'"),
        ("m@2", NotFoundError, "The version m@2 is not there"),
    ],
)
def test_names_of_nothing(name: str, kind, words: str, workspace) -> None:
    with pytest.raises(kind, match=words):
        handing_on.find(workspace, name)


def test_a_signed_version_verifies_and_its_copies_are_signed_too(workspace, tmp_path) -> None:
    private, public = keys.make(tmp_path)
    root, url = workspace.serving_root("m"), "memory://hand-on/m"
    mirror.join(root, url)
    mirror.follow(root)
    lines = handing_on.sign(workspace, "m@latest", private)
    assert lines == [f"m@3 signed: {root}/3/model.sig", f"model.sig of version 3 copied to {url}"]
    handing_on.verify(root / "3", public)
    files = fsspec.filesystem("memory")
    assert files.cat("/hand-on/m/3/model.sig") == (root / "3" / "model.sig").read_bytes()
    assert mirror.follow(root) == []


def test_what_is_not_as_it_was_signed_exits_1(workspace, tmp_path) -> None:
    private, public = keys.make(tmp_path)
    folder = workspace.serving_root("m") / "3"
    handing_on.sign(workspace, "m@3", private)
    (folder / "saved_model.pb").write_text("evil")
    with pytest.raises(handing_on.UnverifiedError) as caught:
        handing_on.verify(folder, public)
    assert caught.value.exit_code == 1
    with pytest.raises(HeadraceError) as caught:
        handing_on.verify(folder, tmp_path / "none.pub")
    assert caught.value.exit_code == 2


def test_a_damaged_version_is_neither_signed_nor_exported(workspace, tmp_path, recorded) -> None:
    (workspace.serving_root("m") / "3" / "saved_model.pb").write_text("evil")
    for work in (
        lambda: handing_on.sign(workspace, "m@3", keys.make(tmp_path)[0]),
        lambda: handing_on.export_zip(workspace, "m@3", tmp_path / "m.zip"),
        lambda: handing_on.export_hugging_face(workspace, "m@3", tmp_path / "hub"),
    ):
        with pytest.raises(WorkspaceError, match="not as it was pushed"):
            work()
    assert not (tmp_path / "m.zip").exists() and not (tmp_path / "hub").exists()


def test_a_zip_holds_a_serving_root_and_the_card_and_is_always_the_same(
    workspace, tmp_path, recorded
) -> None:
    private, public = keys.make(tmp_path)
    handing_on.sign(workspace, "m@3", private)
    digests = set()
    for name in ("a.zip", "b.zip"):
        handing_on.export_zip(workspace, "m@3", tmp_path / "new" / name)
        digests.add(hashlib.sha256((tmp_path / "new" / name).read_bytes()).hexdigest())
    assert len(digests) == 1
    with zipfile.ZipFile(tmp_path / "new" / "a.zip") as archive:
        archive.extractall(tmp_path / "out")
    assert (tmp_path / "out" / "README.md").read_text().startswith("# m, version 3\n")
    assert (tmp_path / "out" / "card.html").read_text().startswith("<!doctype html>")
    handing_on.verify(tmp_path / "out" / "m" / "3", public)
    assert [path.name for path in (tmp_path / "new").iterdir() if path.name[0] == "."] == []


def test_a_folder_for_the_hub(workspace, tmp_path, recorded) -> None:
    private, public = keys.make(tmp_path)
    handing_on.sign(workspace, "m@3", private)
    target = tmp_path / "hub"
    handing_on.export_hugging_face(workspace, "m@3", target)
    files = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert files == {
        ".gitattributes", "README.md", "config.json", "saved_model.pb", "variables/data",
        "assets.extra/headrace.json",
    }  # fmt: skip
    assert (target / "README.md").read_text().startswith("---\nlicense: apache-2.0\n")
    assert "hf download OWNER/m --local-dir m/3" in (target / "README.md").read_text()
    assert json.loads((target / "config.json").read_text())["id2label"]["0"] == "0"
    handing_on.sign_folder(target, private)
    handing_on.verify(target, public)


def test_a_folder_with_something_in_it_is_left_alone(workspace, tmp_path, recorded) -> None:
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "mine").write_text("x")
    with pytest.raises(InputError, match="not empty"):
        handing_on.export_hugging_face(workspace, "m@3", tmp_path / "hub")
    assert [path.name for path in (tmp_path / "hub").iterdir()] == ["mine"]


def test_a_place_that_cannot_be_written(workspace, tmp_path, recorded) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match="The export cannot be written"):
        handing_on.export_zip(workspace, "m@3", Path(tmp_path, "file", "m.zip"))

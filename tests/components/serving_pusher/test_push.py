"""Pushing: whole or not at all, and numbers that only rise."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.errors import PushError
from components.serving_pusher import push


@pytest.fixture
def source(tmp_path) -> Path:
    folder = tmp_path / "source"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"model")
    (folder / "variables" / "variables.index").write_bytes(b"index")
    return folder


def test_versions_count_from_one(source, tmp_path) -> None:
    root = tmp_path / "serving" / "m"
    assert [push.push(source, root, {"run": "r"}) for _ in range(3)] == [1, 2, 3]
    assert push.versions(root) == [1, 2, 3]
    assert (root / "2" / "variables" / "variables.index").read_bytes() == b"index"
    assert json.loads((root / "2" / "assets.extra" / "mlmd_uuid").read_text()) == {"run": "r"}


def test_a_number_is_never_given_twice(source, tmp_path) -> None:
    root = tmp_path / "m"
    push.push(source, root, {})
    push.push(source, root, {})
    shutil.rmtree(root / "2")
    assert push.push(source, root, {}) == 3


def test_foreign_folders_are_no_versions_and_high_numbers_are_respected(source, tmp_path) -> None:
    root = tmp_path / "m"
    (root / "17").mkdir(parents=True)
    (root / "17" / "saved_model.pb").touch()
    (root / "notes").mkdir()
    assert push.push(source, root, {}) == 18


def test_pushes_at_once_get_different_numbers(source, tmp_path) -> None:
    root = tmp_path / "m"
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: push.push(source, root, {}), range(24)))
    assert sorted(numbers) == list(range(1, 25))
    assert all((root / str(number) / "saved_model.pb").exists() for number in numbers)


def test_a_watcher_never_sees_half_a_model(source, tmp_path, monkeypatch) -> None:
    """At every moment of the copy there is no numbered folder that lacks a file."""
    root = tmp_path / "m"
    seen: list[list[int]] = []
    flush = push._flush
    monkeypatch.setattr(push, "_flush", lambda folder: (seen.append(push.versions(root)), flush(folder)))
    push.push(source, root, {})
    assert seen == [[]]


def test_a_failed_push_leaves_nothing(source, tmp_path) -> None:
    root = tmp_path / "m"
    root.write_text("a file in the way")
    with pytest.raises(PushError, match="could not be pushed"):
        push.push(source, root, {})
    root.unlink()
    (source / "saved_model.pb").unlink()
    (source / "saved_model.pb").symlink_to(tmp_path / "nowhere")
    with pytest.raises(PushError):
        push.push(source, root, {})
    assert push.versions(root) == []
    assert list((root / ".staging").iterdir()) == []

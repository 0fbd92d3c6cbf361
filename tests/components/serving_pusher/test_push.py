"""Pushing: whole or not at all, and numbers that only rise."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components.errors import PushError
from components.serving_pusher import push
from components.serving_pusher import root as serving_root
from tests.conftest import ROOT

FILES = {"saved_model.pb": b"model", "variables/variables.index": b"index"}

PUSH_AND_DIE = """
import os, signal, sys
from pathlib import Path
from components.serving_pusher import push

source, root, at = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
seen = 0

def count(event, args):
    global seen
    if event == "open" or event.startswith(("os.", "shutil.", "fcntl.")):
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
push.push(source, root, {}, lambda staged: (staged / "added").write_text("added") and None)
print(seen)
"""

PUSH_FIVE = """
import sys
from pathlib import Path
from components.serving_pusher import push
print(*[push.push(Path(sys.argv[1]), Path(sys.argv[2]), {}) for _ in range(5)])
"""


@pytest.fixture
def source(tmp_path) -> Path:
    folder = tmp_path / "source"
    for name, contents in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents)
    return folder


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_whole(version: Path) -> None:
    for name, contents in FILES.items():
        assert (version / name).read_bytes() == contents, version
    assert (version / push.STAMP_FILE).exists()


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
    serving_root.withdraw(root, 3, serving_root.Withdrawal("canary", "wrong", 1.0))
    (root / ".highest-version").unlink()
    assert push.push(source, root, {}) == 4


def test_foreign_folders_are_no_versions_and_high_numbers_are_respected(source, tmp_path) -> None:
    root = tmp_path / "m"
    (root / "00017").mkdir(parents=True)
    (root / "00017" / "saved_model.pb").touch()
    (root / "notes").mkdir()
    (root / "\u0663").mkdir()  # a digit, but not one that servers read
    assert push.push(source, root, {}) == 18
    assert push.versions(root) == [17, 18]


def test_pushes_at_once_get_different_numbers(source, tmp_path) -> None:
    root = tmp_path / "m"
    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(lambda _: push.push(source, root, {}), range(24)))
    assert sorted(numbers) == list(range(1, 25))
    assert all((root / str(number) / "saved_model.pb").exists() for number in numbers)


def test_processes_that_push_at_once_each_see_rising_numbers(source, tmp_path) -> None:
    root = tmp_path / "m"
    running = [start(PUSH_FIVE, source, root) for _ in range(3)]
    taken = [list(map(int, process.communicate()[0].split())) for process in running]
    assert all(numbers == sorted(numbers) for numbers in taken)
    assert sorted(number for numbers in taken for number in numbers) == list(range(1, 16))
    for number in range(1, 16):
        assert_whole(root / str(number))


def test_a_watcher_never_sees_half_a_model(source, tmp_path, monkeypatch) -> None:
    """At every moment of the copy there is no numbered folder that lacks a file."""
    root = tmp_path / "m"
    seen: list[list[int]] = []
    flush = serving_root.flush_tree
    monkeypatch.setattr(
        serving_root, "flush_tree", lambda folder: (seen.append(push.versions(root)), flush(folder))
    )
    push.push(source, root, {})
    assert seen == [[]]


def test_a_push_that_is_killed_leaves_the_root_whole(source, tmp_path) -> None:
    """At points of the whole push, chosen by a seed, and the first and last few."""
    whole = start(PUSH_AND_DIE, source, tmp_path / "other", -1)
    calls = int(whole.communicate()[0])
    assert calls > 30
    points = {1, 2, calls - 2, calls - 1, calls, *random.Random(7).sample(range(3, calls - 2), 12)}
    root = tmp_path / "m"
    highest = 0
    for point in sorted(points):
        process = start(PUSH_AND_DIE, source, root, point)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        for number in push.versions(root):
            assert_whole(root / str(number))
        number = push.push(source, root, {})
        assert number > highest
        assert number == max(push.versions(root))
        assert list((root / ".staging").iterdir()) == []
        highest = number


def test_a_push_under_way_is_not_taken_for_a_stale_one(source, tmp_path) -> None:
    root = tmp_path / "m"
    inner = []
    push.push(source, root, {}, lambda staged: inner.append(push.push(source, root, {})))
    assert inner == [1]
    assert push.versions(root) == [1, 2]
    assert_whole(root / "2")


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

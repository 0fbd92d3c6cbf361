"""Workers forked from a process that has imported what they need."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from components import subprocesses

ROOT = Path(__file__).parents[2]


def note_surroundings(path: str) -> None:
    text = f"{Path.cwd()} {os.environ.get('HEADRACE_PLANTED')} {os.getpgid(0)}"
    Path(path).write_text(text)
    print("said by the worker", flush=True)


def sleep(path: str) -> None:
    Path(path).write_text(str(os.getpid()))
    time.sleep(120)


def until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        os.sched_yield()


def test_a_worker_has_the_folder_environment_group_and_output_of_who_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_PLANTED", "here")
    with open(tmp_path / "log", "wb") as log:
        process = subprocesses.start(note_surroundings, str(tmp_path / "noted"), output=log.fileno())
        assert process.poll(60.0) == 0
    assert (tmp_path / "noted").read_text() == f"{tmp_path} here {os.getpgid(0)}"
    assert (tmp_path / "log").read_text() == "said by the worker\n"


def test_a_worker_is_ended_by_a_signal(tmp_path: Path) -> None:
    process = subprocesses.start(sleep, str(tmp_path / "pid"))
    until((tmp_path / "pid").exists)
    assert process.poll() is None
    process.terminate()
    assert process.returncode == -signal.SIGTERM
    assert not process.ended_by_itself()


ASK_AND_DIE = """
import os, signal, sys, time
from pathlib import Path
from components import subprocesses
from tests.components import test_fork_server as here
process = subprocesses.start(here.sleep, sys.argv[1])
here.until(lambda: Path(sys.argv[1]).exists() and Path(sys.argv[1]).read_text())
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_and_its_server_do_not_outlive_who_asked(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = subprocess.run([sys.executable, "-c", ASK_AND_DIE, str(pid)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    until(lambda: not psutil.pid_exists(int(pid.read_text())))


SERVE = """
import os, sys, threading
import components.subprocesses as subprocesses
from tests.components import test_fork_server as here
HERE = sys.modules["tests.components.test_fork_server"]
HERE.LOADED = os.getpid()
subprocesses.serve_from_here()
child = os.fork()
if not child:
    subprocesses.run(here.write_loaded, sys.argv[1], limits=subprocesses.Limits(60.0))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(os.getpid())
"""

LOADED = 0
"""Set in a process that workers are forked from."""


def write_loaded(path: str) -> None:
    Path(path).write_text(str(LOADED))


def test_workers_hold_what_the_process_had_that_serves_for_its_children_too(tmp_path: Path) -> None:
    out = tmp_path / "loaded"
    done = subprocess.run(
        [sys.executable, "-c", SERVE, str(out)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert out.read_text() == done.stdout.strip()


def test_a_server_that_was_killed_is_replaced(tmp_path: Path) -> None:
    process = subprocesses.start(sleep, str(tmp_path / "pid"))
    until((tmp_path / "pid").exists)
    server = psutil.Process(process.pid).parent()
    assert server is not None
    server.kill()
    assert process.poll(60.0) == -signal.SIGKILL
    subprocesses.run(note_surroundings, str(tmp_path / "noted"), limits=subprocesses.Limits(60.0))
    assert (tmp_path / "noted").exists()

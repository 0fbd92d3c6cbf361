"""Containers of ours, forked from one process that has imported TFX.

    with WarmPython() as warm:
        process = warm.start(command, folder, environment, log)
        process.wait(timeout=1.0)

Every container of a compiled pipeline imports TFX for a quarter of a minute
before it begins. Here one process does, and forks a child for each: with its
own folder, environment and output, as a process that was started. What is no
call of our entry point is started as ever.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from components import heap

ENTRY = ("python", "-m", "pipelines.runners.kfp_entrypoint")
_POLL_S = 0.05


class Process(Protocol):
    """A process that was started."""

    pid: int

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for a signal; raises subprocess.TimeoutExpired."""


def start(command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> Process:
    """Starts a process of its own.

    Raises:
        OSError: there is no such program.
    """
    with open(log, "wb") as output:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class _Child:
    """A process that the warm one forked."""

    def __init__(self) -> None:
        self.pid = 0
        self.code = 0
        self.begun, self.ended = threading.Event(), threading.Event()

    def wait(self, timeout: float | None = None) -> int:
        if not self.ended.wait(timeout):
            raise subprocess.TimeoutExpired("container", timeout or 0.0)
        return self.code


class WarmPython:
    """The process that forks; to be entered, and used from any thread."""

    def __init__(self) -> None:
        self._children: dict[int, _Child] = {}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Ends it, and with it what still runs."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()

    def start(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path
    ) -> Process:
        """Forks a container of ours; starts any other command as it is."""
        if tuple(command[:3]) != ENTRY:
            return start(command, folder, environment, log)
        child = _Child()
        task = {
            "arguments": list(command[3:]),
            "folder": str(folder),
            "environment": dict(environment),
            "log": str(log),
        }
        with self._lock:
            if self._process is None:
                self._begin(environment)
            number = len(self._children)
            self._children[number] = child
            self._tell({"number": number, **task})
        child.begun.wait()
        return child

    def _begin(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _tell(self, task: Mapping[str, Any]) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            child = self._children[told["number"]]
            if "pid" in told:
                child.pid = told["pid"]
                child.begun.set()
            else:
                child.code = told["code"]
                child.ended.set()
        for child in self._children.values():  # the process itself has died
            if not child.ended.is_set():
                child.code = child.code or 1
                child.begun.set()
                child.ended.set()


def _child(task: Mapping[str, Any]) -> None:
    """What a forked container does; never returns."""
    code = 1
    try:
        heap.settle()
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        log = os.open(task["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, source in ((0, nothing), (1, log), (2, log)):
            os.dup2(source, descriptor)
        os.chdir(task["folder"])
        os.environ.clear()
        os.environ.update(task["environment"])
        sys.argv = ["kfp_entrypoint", *task["arguments"]]
        from pipelines.runners import kfp_entrypoint

        code = kfp_entrypoint.main(task["arguments"])
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve() -> None:
    """Reads a task a line, forks, and tells process ids and exit codes."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print must not mix with answers
    with heap.importing("pipelines.runners.kfp_executors"):
        import apache_beam  # noqa: F401

        from components import beam_worker
        from pipelines.runners import kfp_executors  # noqa: F401

        beam_worker.prepare()
    running: dict[int, int] = {}
    waiting, buffer = True, b""
    while waiting:
        if select.select([0], [], [], _POLL_S)[0]:
            data = os.read(0, 1 << 20)
            waiting, buffer = bool(data), buffer + data
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            task = json.loads(line)
            pid = os.fork()
            if not pid:
                _child(task)
            running[pid] = task["number"]
            print(json.dumps({"number": task["number"], "pid": pid}), file=answers)
        for pid in list(running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                print(json.dumps({"number": running.pop(pid), "code": code}), file=answers)
    for pid in running:
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    _serve()
    os._exit(0)

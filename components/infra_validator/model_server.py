"""A model server in a process of its own, on free loopback ports, ended with the block.

    with serving(lay_out(servable_uri, scratch), seconds=300) as server:
        server.port, server.rest_port, server.memory_mb()

TensorFlow Serving's own binary where it is on the PATH, else the embedded
server, which takes the same flags. That one is forked from a process that has
imported it, so that validating does not begin with importing TensorFlow.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from components import subprocesses
from components.errors import ServableError
from components.serving.client import ModelClient, ServerError
from components.serving.servable import version_folder
from components.serving.server import __main__ as embedded

BINARY = "tensorflow_model_server"
EMBEDDED = "embedded server"
MODEL = "candidate"
VERSION = 1

_POLL_S = 0.05
_END_S = 10.0
_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
_FLAGS = ("--file_system_poll_wait_seconds=0", "--max_num_load_retries=0")


@dataclass(frozen=True)
class ModelServer:
    """A server that has the model loaded.

    Attributes:
        kind: which server it is.
        port: gRPC, on 127.0.0.1.
        rest_port: REST, on 127.0.0.1.
        cold_load_s: from starting the process until the version was AVAILABLE;
            the embedded server's own imports are no part of it.
        pid: the server's.
    """

    kind: str
    port: int
    rest_port: int
    cold_load_s: float
    pid: int

    def memory_mb(self) -> float:
        """Resident memory of the process now, in MiB."""
        return float(psutil.Process(self.pid).memory_info().rss / 2**20)


def lay_out(servable_uri: str, scratch: Path) -> Path:
    """A serving root that holds the servable's very bytes as version 1.

    Hard links where the file system can, copies elsewhere.
    """
    root = scratch / MODEL
    shutil.copytree(version_folder(servable_uri), root / str(VERSION), copy_function=_link_or_copy)
    return root


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


class ServerKilledError(RuntimeError):
    """The server was ended from outside, by hand or for want of memory: that says nothing of the model.

    The node fails, and is run again on resume; a refusal would stand in the
    cache and be taken for the model's.
    """


_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM)
_REAP_S = 0.5


@contextlib.contextmanager
def serving(root: Path, *, seconds: float, embedded_only: bool = False) -> Iterator[ModelServer]:
    """Starts a server on `root` and waits until version 1 is AVAILABLE.

    Args:
        root: the serving root.
        seconds: time limit.
        embedded_only: for what TensorFlow Serving's own binary does not do.

    Raises:
        ServableError: the version does not load, or not within `seconds`; the
            message ends with the last line of the server's log.
        ServerKilledError: it was ended from outside, before or inside the block.
    """
    kind, command = _command(embedded_only)
    port, rest_port = _free_ports()
    log = root.parent / "server.log"
    flags = [f"--model_name={MODEL}", f"--model_base_path={root}", f"--port={port}"]
    process = _started(command, [*flags, f"--rest_api_port={rest_port}", *_FLAGS], log)
    began = time.monotonic()
    try:
        _wait(process, ModelClient("127.0.0.1", rest_port, timeout_s=5.0), began + seconds, log)
        yield ModelServer(kind, port, rest_port, time.monotonic() - began, process.pid)
    except Exception:
        code = process.poll(_REAP_S)
        if code in _FROM_OUTSIDE:
            # From None: else the error that it led to would be taken for the reason, and for the user's.
            raise ServerKilledError(f"the model server was ended from outside, by signal {-code}") from None
        raise
    finally:
        process.terminate(_END_S)


class _Process(Protocol):
    """A server's."""

    @property
    def pid(self) -> int: ...

    def poll(self, timeout_s: float = 0.0) -> int | None:
        """Its exit code, negative for a signal; None where it is still running after the time-out."""

    def terminate(self, grace_s: float) -> None:
        """Ends it and waits for that; by force after the grace time."""


def _started(command: Sequence[str], flags: Sequence[str], log: Path) -> _Process:
    with log.open("wb") as output:
        if not command:
            return subprocesses.start(embedded.serve, list(flags), output=output.fileno())
        return _Popen(
            subprocess.Popen(
                [*_ends_with_us(), *command, *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        )


class _Popen:
    """A program that was started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self, timeout_s: float = 0.0) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.returncode

    def terminate(self, grace_s: float) -> None:
        self._process.terminate()
        if self.poll(grace_s) is None:
            self._process.kill()
            self._process.wait()


def _ends_with_us() -> list[str]:
    """A prefix with which Linux ends the server when this process is killed.

    Not `preexec_fn`: gRPC and TensorFlow have threads here, and a fork that
    runs Python in between is not safe.
    """
    if sys.platform != "linux":
        return []
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid())]


def _command(embedded_only: bool) -> tuple[str, list[str]]:
    """Which server, and the program; none for the embedded one."""
    binary = None if embedded_only else shutil.which(BINARY)
    return (BINARY, [binary]) if binary else (EMBEDDED, [])


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _wait(process: _Process, client: ModelClient, deadline: float, log: Path) -> None:
    while True:
        state = _state(client)
        if state == "AVAILABLE":
            return
        code = process.poll()
        if code is not None:
            raise _failed(f"the model server ended with code {code}", log)
        if state == "END":
            raise _failed("the model server could not load it", log)
        if time.monotonic() > deadline:
            raise _failed("the model server was not ready in time", log)
        time.sleep(_POLL_S)


def _state(client: ModelClient) -> str:
    try:
        return client.status(MODEL).get(VERSION, "")
    except ServerError:
        return ""  # it does not listen yet


def _failed(headline: str, log: Path) -> ServableError:
    lines = log.read_text(errors="replace").strip().splitlines()
    wrong = [line for line in lines if "ERROR" in line or line.startswith("E")]
    last = (wrong or lines or ["its log is empty"])[-1]
    return ServableError(f"{headline}: {last[:500]}")

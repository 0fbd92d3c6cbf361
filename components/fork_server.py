"""A process that has imported what workers need and forks one for whoever asks.

    server = ForkServer.spawn(["tensorflow"])       # a fresh interpreter; or
    server = ForkServer.fork()                      # as this process is now, which must have one thread only
    pid, talk = server.start(work, argument, output)

A worker begins as the server is, with the folder, environment and output of the
process that asked for it, and in its process group. It is killed when that
process is gone or closes the connection; the server ends when no process is
left that could ask.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components import child_process, heap

_MESSAGE_BYTES = 1 << 16
_FILES = 4
"""That come with a request: the connection, the request, and where output and errors go."""

Work = Callable[[Any], Mapping[str, Any]]
"""What a worker does: importable by name; what it returns, JSON, is told, and its `code` is the exit code."""


class ServerGoneError(Exception):
    """There is no server any more."""


class Talk:
    """What a worker and the server say of it: JSON objects, `{"pid": N}` first and `{"exit": N}` last."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def heard(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next message; None where there is none in time.

        Raises:
            ServerGoneError: the server ended.
        """
        if timeout_s is not None and not select.select([self._connection], [], [], timeout_s)[0]:
            return None
        data = self._connection.recv(_MESSAGE_BYTES)
        if not data:
            raise ServerGoneError("the process that forks workers has ended")
        return dict(json.loads(data))

    def close(self) -> None:
        """Ends the worker, where it is not done."""
        self._connection.close()


class ForkServer:
    """The asking side; processes forked from one that has it can ask as well."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    @classmethod
    def spawn(cls, modules: Sequence[str]) -> ForkServer:
        """Starts a server in a fresh interpreter that imports these modules."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            given = json.dumps({"control": theirs.fileno(), "path": sys.path, "modules": list(modules)})
            process = subprocess.Popen(
                [sys.executable, "-c", _SPAWNED, given], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        # Whoever started this process waits for it: it may outlive us by a moment.
        process.returncode = 0
        return cls(ours)

    @classmethod
    def fork(cls) -> ForkServer:
        """Starts a server that has imported what this process has; to be called while there is one thread."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        if os.fork():
            theirs.close()
            return cls(ours)
        try:
            ours.close()
            serve(theirs)
        finally:
            os._exit(1)

    def close(self) -> None:
        """Gives up asking; the server ends when nobody else can ask."""
        self._control.close()

    def start(self, work: Work, argument: Any, output: int | None = None) -> tuple[int, Talk]:
        """Starts a worker; returns its process id, and what is said of it.

        Args:
            work: what it does.
            argument: picklable.
            output: a file's number for standard output and error; this process's own where None.

        Raises:
            ServerGoneError: the server ended.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        talk = Talk(ours)
        with theirs, tempfile.TemporaryFile() as file:
            pickle.dump(_Request.here(), file)
            pickle.dump((work, argument), file)
            file.flush()
            outputs = [1, 2] if output is None else [output, output]
            try:
                socket.send_fds(self._control, [b"\0"], [theirs.fileno(), file.fileno(), *outputs])
            except OSError as error:
                talk.close()
                raise ServerGoneError("the process that forks workers has ended") from error
        told = talk.heard(None)
        assert told is not None
        return int(told["pid"]), talk


@dataclass(frozen=True)
class _Request:
    """What a worker takes over from the process that asked."""

    group: int
    folder: str
    environment: dict[str, str]
    path: list[str]

    @classmethod
    def here(cls) -> _Request:
        return cls(os.getpgid(0), str(Path.cwd()), dict(os.environ), list(sys.path))

    def take_over(self) -> None:
        with contextlib.suppress(OSError):  # of another session: then the connection alone ends it
            os.setpgid(0, self.group)
        os.chdir(self.folder)
        if self.environment != dict(os.environ):
            os.environ.clear()
            os.environ.update(self.environment)
        sys.path[:] = self.path


_SPAWNED = """
import json, sys
given = json.loads(sys.argv[1])
sys.path[:] = given["path"]
from components import fork_server
fork_server.spawned(given["control"], given["modules"])
"""


def spawned(control: int, modules: Sequence[str]) -> None:
    """Entry point of a server in an interpreter of its own; does not return."""
    with heap.importing(modules[-1] if modules else __name__):
        for name in modules:
            with contextlib.suppress(Exception):  # the worker that needs it says what is wrong
                __import__(name)
    serve(socket.socket(fileno=control))


def serve(control: socket.socket) -> None:
    """Forks workers until nobody is left who could ask; never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    heap.settle()
    _Server(control).run()
    os._exit(0)


@dataclass
class _Server:
    control: socket.socket
    running: dict[int, socket.socket] = field(default_factory=dict)

    def run(self) -> None:
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            watched: list[socket.socket | int] = [self.control, woken, *self.running.values()]
            ready, _, _ = select.select(watched, [], [])
            if woken in ready:
                os.read(woken, 1024)
            self._reap()
            for pid, connection in list(self.running.items()):
                if connection in ready and not _still_there(connection):
                    self._kill(pid)
            if self.control in ready and not self._asked():
                break
        for pid in self.running:
            self._kill(pid)

    def _asked(self) -> bool:
        """Forks a worker; False where nobody is left who could ask."""
        data, files, _, _ = socket.recv_fds(self.control, 1, _FILES)
        if not data:
            return False
        connection = socket.socket(fileno=files[0])
        pid = os.fork()
        if not pid:
            self._become_worker(connection, *files[1:])
        for file in files[1:]:
            os.close(file)
        self.running[pid] = connection
        _say(connection, {"pid": pid})
        return True

    def _become_worker(self, connection: socket.socket, request: int, output: int, error: int) -> None:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self.control.close()
            for other in self.running.values():
                other.close()
            child_process.die_with_parent()
            os.dup2(output, 1)
            os.dup2(error, 2)
            for file in (output, error):
                os.close(file)
            code = _work(connection, request)
        except BaseException:
            traceback.print_exc()
        finally:
            child_process.leave(code)

    def _reap(self) -> None:
        while self.running:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            connection = self.running.pop(pid, None)
            if connection is not None:
                _say(connection, {"exit": os.waitstatus_to_exitcode(status)})
                connection.close()

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        self.running[pid].close()
        del self.running[pid]


def _work(connection: socket.socket, request: int) -> int:
    """Does what was asked; the exit code."""
    # The file's place is shared with the process that wrote it.
    with open(request, "rb") as file:
        file.seek(0)
        taken: _Request = pickle.load(file)
        taken.take_over()
        work, argument = pickle.load(file)
    told = work(argument)
    _say(connection, told)
    return int(told.get("code", 0))


def _say(connection: socket.socket, message: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        connection.send(json.dumps(message).encode())


def _still_there(connection: socket.socket) -> bool:
    """Whether the other side is; it never says anything."""
    try:
        return bool(connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False

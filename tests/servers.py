"""Database servers of a test session, on loopback and a socket, as a user without rights.

    with mariadb(folder, ("runs",)) as server:
        server.url("runs"), server.password

Installed by `tools/install_test_programs.sh`; `mariadb` and `postgresql` say why
they cannot start one.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.waiting import wait_until

PASSWORD = "it's a s3cret/@:?%"
USER = "headrace"
_UNPRIVILEGED = "nobody"
_START_S = 60.0


@dataclass(frozen=True)
class Server:
    """A running server: `socket` is what URLs name, of MySQL a file, of PostgreSQL a folder."""

    kind: str
    port: int
    socket: Path
    password: str = PASSWORD

    def url(self, database: str, *, by_socket: bool = False) -> str:
        if by_socket:
            # PostgreSQL's socket is named after the port.
            return f"{self.kind}://{USER}@localhost:{self.port}/{database}?socket={self.socket}"
        return f"{self.kind}://{USER}@127.0.0.1:{self.port}/{database}"


def _program(name: str, *folders: str) -> str:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *folders])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is not installed; tools/install_test_programs.sh installs it")
    return found


def _identity() -> dict[str, int]:
    """Servers refuse to run as root."""
    if os.getuid():
        return {}
    user = pwd.getpwnam(_UNPRIVILEGED)
    return {"user": user.pw_uid, "group": user.pw_gid}


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A short path (a socket's name has at most 107 characters), owned by who runs the server."""
    with tempfile.TemporaryDirectory(prefix="headrace-") as name:
        identity = _identity()
        if identity:
            os.chown(name, identity["user"], identity["group"])
        yield Path(name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _do(folder: Path, *command: str, **environment: str) -> None:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "HOME": str(folder), **environment},
        capture_output=True, text=True, check=False, **_identity(),
    )  # fmt: skip
    assert done.returncode == 0, f"{command[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


@contextlib.contextmanager
def _running(folder: Path, *command: str) -> Iterator[None]:
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "HOME": str(folder)},
            **_identity(),
        )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def mariadb(databases: Sequence[str]) -> Iterator[Server]:
    """A MariaDB server with empty databases."""
    server, install = _program("mariadbd"), _program("mariadb-install-db")
    quoted = PASSWORD.replace("'", "''")
    with _folder() as folder:
        port, place = _free_port(), folder / "db.sock"
        statements = [f"CREATE DATABASE {name};" for name in databases]
        for host in ("127.0.0.1", "localhost"):
            statements.append(f"CREATE USER '{USER}'@'{host}' IDENTIFIED BY '{quoted}';")
            statements.extend(f"GRANT ALL ON {name}.* TO '{USER}'@'{host}';" for name in databases)
        (folder / "init.sql").write_text("\n".join(statements) + "\n")
        data = f"--datadir={folder}/data"
        _do(folder, install, "--no-defaults", data, "--auth-root-authentication-method=normal")
        command = (
            server, "--no-defaults", data, f"--socket={place}", f"--port={port}", "--bind-address=127.0.0.1",
            f"--pid-file={folder}/pid", f"--init-file={folder}/init.sql", "--innodb-flush-log-at-trx-commit=0"
        )  # fmt: skip
        with _running(folder, *command):
            wait_until(lambda: _answers(port), _START_S)
            yield Server("mysql", port, place)


@contextlib.contextmanager
def postgresql(databases: Sequence[str]) -> Iterator[Server]:
    """A PostgreSQL server with empty databases; passwords are asked for by SCRAM, on its socket too."""
    folders = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    programs = {name: _program(name, *folders) for name in ("initdb", "postgres", "createdb", "pg_isready")}
    with _folder() as folder:
        port = _free_port()
        (folder / "password").write_text(PASSWORD + "\n")
        _do(
            folder, programs["initdb"], "-D", f"{folder}/data", "-U", USER, "--pwfile", f"{folder}/password",
            "--auth=scram-sha-256", "--no-sync", "--locale=C.UTF-8",
        )  # fmt: skip
        command = (programs["postgres"], "-D", f"{folder}/data", "-p", str(port), "-k", str(folder), "-F")
        with _running(folder, *command, "-h", "127.0.0.1"):
            place = ("-h", "127.0.0.1", "-p", str(port))
            ready = (programs["pg_isready"], *place)
            wait_until(
                lambda: subprocess.run(ready, capture_output=True, check=False).returncode == 0, _START_S
            )
            for name in databases:
                _do(folder, programs["createdb"], *place, "-U", USER, name, PGPASSWORD=PASSWORD)
            yield Server("postgresql", port, folder)

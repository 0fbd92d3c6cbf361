"""Real distributed engines on loopback: Prism, Beam's own job service, a Flink cluster; and our pool."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.waiting import wait_until

PRISM = ROOT / ".prism" / "prism"
"""Made by `make prism`."""

FLINK_JOB_SERVER = "HEADRACE_FLINK_JOB_SERVER"
"""Environment variable: the path of Beam's job server for the Flink of tools/flink_cluster.py."""


@dataclass(frozen=True)
class Pool:
    """Our pool of workers: its address, and its log."""

    address: str
    log: Path

    def workers(self) -> list[int]:
        """Processes of the workers that were started, the oldest first."""
        return [int(number) for number in re.findall(r"started, process (\d+)", self.log.read_text())]


@dataclass(frozen=True)
class Engine:
    """An engine that is there: settings under `beam:`, its pool, a task manager's process."""

    settings: dict[str, object]
    pool: Pool
    task_manager: int | None = None

    def options(self) -> list[str]:
        """For a command line."""
        return [f"--set=beam.{key}={value}" for key, value in self.settings.items()]

    def victim(self) -> int:
        """What is killed to see a job survive it: a task manager, else the newest worker."""
        return self.task_manager or self.pool.workers()[-1]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def running(command: Sequence[str], port: int, log: Path) -> Iterator[None]:
    """A program that listens on a port."""
    with log.open("w") as file:
        process = subprocess.Popen(list(command), stdout=file, stderr=file, cwd=ROOT)

    def listening() -> bool:
        assert process.poll() is None, log.read_text()
        return _listens(port)

    try:
        wait_until(listening)
        yield
    finally:
        process.terminate()
        process.wait(timeout=300)


@contextlib.contextmanager
def pool(folder: Path) -> Iterator[Pool]:
    """Our pool of workers."""
    port, log = free_port(), folder / "pool.log"
    with running([sys.executable, "-m", "components.beam_pool", "--port", str(port)], port, log):
        yield Pool(f"localhost:{port}", log)


@contextlib.contextmanager
def prism(folder: Path) -> Iterator[Engine]:
    """Prism, which `make prism` makes."""
    if not PRISM.exists():
        pytest.skip("there is no Prism; make prism makes it")
    port = free_port()
    command = [str(PRISM), "-job_port", str(port), "-serve_http=false"]
    with running(command, port, folder / "prism.log"), pool(folder) as found:
        given = {"runner": "portable", "job_endpoint": f"localhost:{port}", "pool": found.address}
        yield Engine(given, found)


@contextlib.contextmanager
def job_service(folder: Path) -> Iterator[str]:
    """The address of Beam's own job service, which gives a job one worker."""
    port = free_port()
    module = "apache_beam.runners.portability.local_job_service_main"
    command = [sys.executable, "-m", module, "-p", str(port)]
    with running(command, port, folder / "service.log"):
        yield f"localhost:{port}"


@contextlib.contextmanager
def flink(folder: Path) -> Iterator[Engine]:
    """A Flink cluster of two task managers, with Beam's job server."""
    jar = os.environ.get(FLINK_JOB_SERVER)
    if not jar:
        pytest.skip(f"{FLINK_JOB_SERVER} names no job server of Beam for Flink")
    rest, workers = free_port(), free_port()
    ports = ("--rest-port", str(rest), "--pool-port", str(workers))
    tool = [sys.executable, str(ROOT / "tools" / "flink_cluster.py")]
    subprocess.run([*tool, "start", *ports], check=True)
    try:
        found = Pool(f"localhost:{workers}", ROOT / ".flink" / "log" / "pool.log")
        pids = json.loads((ROOT / ".flink" / "pids.json").read_text())["pids"]
        given = {"address": f"http://localhost:{rest}", "pool": found.address, "job_server_jar": jar}
        yield Engine({"runner": "flink", **given}, found, pids["task manager 2"])
    finally:
        subprocess.run([*tool, "stop"], check=True)

"""A Flink cluster on this machine: a job manager, task managers, and our pool of Beam workers beside them.

    python tools/flink_cluster.py start [--task-managers 2] [--slots 2]
    python tools/flink_cluster.py status
    python tools/flink_cluster.py stop

Flink comes from PyPI's `apache-flink-libraries`, into .flink/, apart from the
product's environment; it needs Java 17. All of it listens on loopback alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = "1.20.5"
"""Of Flink; Beam 2.77 has job servers for 1.19, 1.20, 2.0, 2.1 and 2.2."""

JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_MEMORY = "org.apache.flink.runtime.util.bash.BashJavaUtils"
_RESULT = "BASH_JAVA_UTILS_EXEC_RESULT:"
# What Flink's libraries reach into, and Java 17 keeps shut.
_OPEN = ("java.lang", "java.lang.reflect", "java.net", "java.nio", "java.text", "java.time", "java.util")
_OPEN_MORE = ("java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks")
_START_S = 180.0


class Failed(Exception):
    """Said to the user, without a traceback."""


class Cluster:
    """The cluster whose files lie in a folder.

    Args:
        folder: for Flink, its settings, logs and the numbers of its processes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._flink = folder / f"flink-{VERSION}" / "pyflink"
        self._settings = folder / "conf"
        self._logs = folder / "log"
        self._pids = folder / "pids.json"

    def install(self) -> None:
        """Brings Flink, where it is not there: 232 MB to download."""
        if shutil.which("java") is None:
            raise Failed("There is no Java; install version 17.")
        if self._flink.is_dir():
            return
        target = self._flink.parent.with_suffix(".new")
        shutil.rmtree(target, ignore_errors=True)
        package = f"apache-flink-libraries=={VERSION}"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        print(f"installing {package} into {self._flink.parent}", flush=True)
        if subprocess.run([*command, "--no-deps", "--target", str(target), package]).returncode:
            raise Failed(f"{package} could not be installed.")
        target.rename(self._flink.parent)

    def start(self, task_managers: int, slots: int, memory_mb: int, rest_port: int, pool_port: int) -> None:
        """Starts everything, and returns when all task managers have signed on."""
        if self.running():
            raise Failed("It runs already; python tools/flink_cluster.py stop ends it.")
        self.install()
        self._configure(slots, memory_mb, rest_port)
        pids = {"job manager": self._java(JOB_MANAGER, "JM", "job-manager", "--executionMode", "cluster")}
        self._keep(pids, rest_port)
        for number in range(1, task_managers + 1):
            pids[f"task manager {number}"] = self._java(TASK_MANAGER, "TM", f"task-manager-{number}")
            self._keep(pids, rest_port)
        pids["pool"] = self._process(
            [sys.executable, "-m", "components.beam_pool", "--port", str(pool_port)], "pool"
        )
        self._keep(pids, rest_port)
        self._wait(pids, task_managers, rest_port)
        print(f"Flink {VERSION} at http://localhost:{rest_port}, Beam workers at localhost:{pool_port}")

    def stop(self) -> None:
        """Ends everything that runs."""
        for pid in self.running().values():
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.2)
        for pid in self.running().values():
            os.kill(pid, signal.SIGKILL)
        self._pids.unlink(missing_ok=True)

    def running(self) -> dict[str, int]:
        """What runs: name -> process."""
        if not self._pids.exists():
            return {}
        pids: dict[str, int] = json.loads(self._pids.read_text())["pids"]
        return {name: pid for name, pid in pids.items() if _is_ours(pid)}

    def _configure(self, slots: int, memory_mb: int, rest_port: int) -> None:
        for folder in (self._settings, self._logs, self._folder / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        settings = {
            "jobmanager.rpc.address": "localhost",
            "jobmanager.bind-host": "localhost",
            "jobmanager.memory.process.size": "1024m",
            "taskmanager.host": "localhost",
            "taskmanager.bind-host": "localhost",
            "taskmanager.memory.process.size": f"{memory_mb}m",
            "taskmanager.numberOfTaskSlots": slots,
            "rest.address": "localhost",
            "rest.bind-address": "localhost",
            "rest.port": rest_port,
            "io.tmp.dirs": self._folder / "tmp",
            # A task whose host died is started elsewhere.
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": 3,
            "restart-strategy.fixed-delay.delay": "2 s",
            "heartbeat.timeout": 20_000,
        }
        lines = "".join(f"{key}: {value}\n" for key, value in settings.items())
        (self._settings / "config.yaml").write_text(lines)

    def _java(self, main: str, kind: str, name: str, *more: str) -> int:
        java, dynamic = self._sizes(kind)
        opens = [f"--add-opens=java.base/{item}=ALL-UNNAMED" for item in (*_OPEN, *_OPEN_MORE)]
        arguments = ["--configDir", str(self._settings), *more, *dynamic]
        return self._process(["java", *java, *opens, "-cp", f"{self._flink}/lib/*", main, *arguments], name)

    def _sizes(self, kind: str) -> tuple[list[str], list[str]]:
        """Java's options and Flink's, by which Flink's own scripts divide a process's memory."""
        paths = f"{self._flink}/bin/bash-java-utils.jar:{self._flink}/lib/*"
        command = ["java", "-cp", paths, _MEMORY, f"GET_{kind}_RESOURCE_PARAMS", "--configDir"]
        done = subprocess.run([*command, str(self._settings)], capture_output=True, text=True)
        found = [line.removeprefix(_RESULT) for line in done.stdout.splitlines() if line.startswith(_RESULT)]
        if len(found) != 2:
            raise Failed(f"Flink did not take its settings: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return found[0].split(), found[1].split()

    def _process(self, command: list[str], name: str) -> int:
        with (self._logs / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        return process.pid

    def _keep(self, pids: dict[str, int], rest_port: int) -> None:
        self._pids.write_text(json.dumps({"pids": pids, "rest_port": rest_port}))

    def _wait(self, pids: dict[str, int], task_managers: int, rest_port: int) -> None:
        deadline = time.monotonic() + _START_S
        while _task_managers(rest_port) < task_managers:
            dead = set(pids) - set(self.running())
            if dead or time.monotonic() > deadline:
                self.stop()
                late = f"not all were there after {_START_S:g} s"
                why = f"{', '.join(sorted(dead))} ended" if dead else late
                raise Failed(f"The cluster did not start: {why}. Its logs are in {self._logs}.")
            time.sleep(0.5)


def _is_ours(pid: int) -> bool:
    """Whether a process is one of those started here, and not another that got its number."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    names = (JOB_MANAGER, TASK_MANAGER, "components.beam_pool")
    return state != "Z" and any(name.encode() in command for name in names)


def _task_managers(rest_port: int) -> int:
    try:
        with urllib.request.urlopen(f"http://localhost:{rest_port}/overview", timeout=5) as answer:
            return int(json.loads(answer.read())["taskmanagers"])
    except (urllib.error.URLError, OSError, ValueError, KeyError):
        return 0


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python tools/flink_cluster.py")
    parser.add_argument("what", choices=["start", "status", "stop"])
    parser.add_argument("--folder", type=Path, default=ROOT / ".flink")
    parser.add_argument("--task-managers", type=int, default=2)
    parser.add_argument("--slots", type=int, default=2, help="of each task manager")
    parser.add_argument("--memory-mb", type=int, default=1024, help="of each task manager's Java")
    parser.add_argument("--rest-port", type=int, default=8081)
    parser.add_argument("--pool-port", type=int, default=50000)
    given = parser.parse_args()
    cluster = Cluster(given.folder.absolute())
    try:
        if given.what == "start":
            cluster.start(given.task_managers, given.slots, given.memory_mb, given.rest_port, given.pool_port)
        elif given.what == "stop":
            cluster.stop()
        else:
            for name, pid in cluster.running().items():
                print(f"{name}: process {pid}")
    except Failed as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A run that trains on two hosts, here two processes on loopback; and one of them is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modules.training import cluster, hosts
from tests.conftest import ROOT
from tests.engines import free_port
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

SETTINGS = (
    *("train.strategy=multi_worker", "train.epochs=30", "train.early_stopping_patience=30"),
    *("train.checkpoint.every_steps=10", "train.worker_timeout_s=300"),
)


class Hosts:
    """Two hosts that share a workspace; each is started as a training job starts it."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self._folder = folder
        self._addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        self._call = folder / "call.json"

    def chief(self) -> subprocess.Popen[bytes]:
        """Runs the experiment, and goes on with its own latest run."""
        settings = [f"--set={setting}" for setting in SETTINGS]
        command = ["pipelines.cli.main", "run", "digits", "--workspace", str(self.workspace)]
        return self._start(0, *command, "--to", "Trainer", "--resume", *settings)

    def other(self) -> subprocess.Popen[bytes]:
        """Trains along."""
        return self._start(1, hosts.__name__, str(self._call))

    def log(self, index: int) -> str:
        return (self._folder / f"{index}.log").read_text()

    def _start(self, index: int, *module: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "TF_CONFIG": cluster.config_json(self._addresses, index),
            hosts.VARIABLE: str(self._call),
        }
        with (self._folder / f"{index}.log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *module], cwd=ROOT, env=environment, stdout=log, stderr=log
            )


def test_a_lost_host_ends_the_training_and_the_next_start_goes_on(tmp_path: Path) -> None:
    both = Hosts(tmp_path)
    chief, other = both.chief(), both.other()
    try:
        wait_until(lambda: any(both.workspace.glob("training/digits/**/position.json")), seconds=300)
        other.send_signal(signal.SIGKILL)
        assert chief.wait(timeout=300) == 1, both.log(0)
        other.wait(timeout=60)
        chief, other = both.chief(), both.other()
        assert chief.wait(timeout=300) == 0, both.log(0)
        assert other.wait(timeout=120) == 0, both.log(1)
    finally:
        for process in (chief, other):
            if process.poll() is None:
                process.kill()
                process.wait()
    (history,) = (both.workspace / "artifacts" / "digits" / "Trainer").rglob("history.json")
    report = json.loads(history.read_text())
    assert (report["system"]["strategy"], report["system"]["replicas"]) == ("multi_worker", 2)
    assert len(report["history"]["loss"]) == 30
    assert report["resumed_from_step"] >= 10

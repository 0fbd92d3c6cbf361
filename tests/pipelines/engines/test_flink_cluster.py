"""A real Flink cluster on this machine, as `make flink` starts it, and what we find out about it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.beam_stage import Beam
from pipelines.engines import flink, prepare
from pipelines.errors import EngineError
from tests.conftest import ROOT
from tests.engines import free_port
from tests.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Tool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tool() -> Tool:
    if shutil.which("java") is None:
        pytest.skip("there is no Java")

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "tools" / "flink_cluster.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return call


def test_a_cluster_comes_up_is_found_fit_loses_a_task_manager_and_goes(tool: Tool, tmp_path: Path) -> None:
    rest, pool = free_port(), free_port()
    address = f"http://localhost:{rest}"
    try:
        done = tool("start", "--rest-port", str(rest), "--pool-port", str(pool))
        assert done.returncode == 0, done.stderr
        assert tool("start").returncode == 2
        cluster = flink.look(address)
        assert (cluster.version, cluster.slots, cluster.free) == ("1.20", 4, 4)
        assert cluster.slots_per_task_manager == 2
        (host,) = cluster.hosts.values()
        assert (host.task_managers, host.slots, host.process_mb) == (2, 4, 2048)
        jar = tmp_path / "beam-runners-flink-1.20-job-server-2.77.0.jar"
        jar.touch()
        settings = Beam(
            runner="flink", address=address, pool=f"localhost:{pool}", job_server_jar=str(jar), parallelism=3
        )
        assert "--parallelism=3" in prepare.prepare(settings, tmp_path, [], None)
        pids = json.loads((ROOT / ".flink" / "pids.json").read_text())["pids"]
        os.kill(pids["task manager 2"], signal.SIGKILL)
        wait_until(lambda: flink.look(address).slots == 2)
        with pytest.raises(EngineError, match="needs 3 slots, but 2"):
            prepare.prepare(settings, tmp_path, [], None)
    finally:
        assert tool("stop").returncode == 0
    assert tool("status").stdout == ""
    with pytest.raises(EngineError, match="cannot be reached"):
        flink.look(address)

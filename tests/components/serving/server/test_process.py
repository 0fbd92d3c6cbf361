"""The server as a process: signals, crashes, and starts that cannot succeed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import pytest

from components.errors import ServableError
from components.serving.server.status import RequestError
from tests.components.serving.server import models
from tests.components.serving.server.running_server import ROOT, Process, free_ports, in_thread
from tests.components.serving.server.test_grpc import predict_request


def test_killed_it_serves_again_and_ended_it_answers_what_is_under_way(tmp_path: Path) -> None:
    root, log, ports = tmp_path / "root", tmp_path / "log", free_ports()
    models.kinds(root / "kinds" / "1")
    (root / "kinds" / "2").mkdir()
    (root / "kinds" / "2" / "saved_model.pb").write_bytes(b"corrupt")
    short = predict_request("kinds", "slow", steps=np.int32([1]))
    with Process(log, f"--model_root={root}", ports=ports) as server:
        server.wait_until("kinds", 1)
        assert server.clients.predictions.Predict(short, timeout=30).model_spec.version.value == 1
        server.process.kill()
        server.process.wait()
    # The second time by the command line, whose flags are the same.
    command = ("pipelines.cli.main", "serve")
    with Process(log, f"--model-root={root}", ports=ports, command=command) as server:
        server.wait_until("kinds", 1)
        assert server.clients.predictions.Predict(short, timeout=30).model_spec.version.value == 1
        long = predict_request("kinds", "slow", steps=np.int32([500]))
        calls = [server.clients.predictions.Predict.future(long, timeout=60) for _ in range(4)]
        # Answered after those four were taken in: the connection keeps their order.
        server.clients.states("kinds")
        server.process.send_signal(signal.SIGTERM)
        assert [call.code() for call in calls] == [grpc.StatusCode.OK] * 4
        assert server.process.wait(30) == 0
    assert "Traceback" not in log.read_text()


def test_a_bad_list_of_models_ends_the_start(made: Path, tmp_path: Path) -> None:
    config = tmp_path / "models.config"
    config.write_text(
        f"""model_config_list {{ config {{
          name: "half" base_path: "{made / "half"}" model_platform: "tensorflow"
          version_labels {{ key: "x" value: 9 }} }} }}"""
    )
    port, rest_port = free_ports()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "components.serving.server", f"--model_config_file={config}"),
            *(f"--port={port}", f"--rest_api_port={rest_port}"),
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=90,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert "Request to assign label to half version 9" in done.stderr
    assert "Traceback" not in done.stderr


def test_starts_that_cannot_succeed(made: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(ServableError, match="There is no such folder"),
        in_thread(model_root=str(tmp_path / "none")),
    ):
        pass
    config = tmp_path / "models.config"
    config.write_text("model_config_list { config {")
    with pytest.raises(ServableError, match="ModelServerConfig"), in_thread(model_config_file=str(config)):
        pass
    config.write_text(
        'model_config_list { config { name: "a" base_path: "b" model_platform: "tensorflow" } }'
    )
    with pytest.raises(RequestError, match="absolute path"), in_thread(model_config_file=str(config)):
        pass


@pytest.mark.parametrize("flag", ["port", "rest_api_port"])
def test_a_port_that_is_taken(made: Path, flag: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        with (
            pytest.raises(ServableError, match="cannot be listened on"),
            in_thread(model_base_path=str(made / "half"), **{flag: taken}),
        ):
            pass


def test_either_api_may_be_off(made: Path) -> None:
    with in_thread(model_base_path=str(made / "half"), model_name="half", rest_api_port=0) as clients:
        assert clients.states("half") == {2: "AVAILABLE"}
    with in_thread(model_base_path=str(made / "half"), model_name="half", port=0) as clients:
        assert clients.get("half").status_code == 200

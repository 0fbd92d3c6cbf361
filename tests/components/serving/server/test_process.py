"""The server as a process: signals, crashes, and starts that cannot succeed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import pytest

from tests.components.serving.server import models
from tests.components.serving.server.running_server import ROOT, Process, free_ports, wait_for
from tests.components.serving.server.test_grpc import predict_request


def test_sigterm_answers_what_is_under_way(made: Path, tmp_path: Path) -> None:
    with Process(tmp_path / "log", f"--model_root={made}") as server:
        server.wait_until("kinds", 7)
        request = predict_request("kinds", "slow", steps=np.int32([1]))
        server.clients.predictions.Predict(request, timeout=30)
        request = predict_request("kinds", "slow", steps=np.int32([300]))
        calls = [server.clients.predictions.Predict.future(request, timeout=60) for _ in range(4)]
        metrics = predict_request("kinds", "slow", steps=np.int32([1]))
        wait_for(lambda: server.clients.predictions.Predict(metrics, timeout=60))
        server.process.send_signal(signal.SIGTERM)
        assert [call.code() for call in calls] == [grpc.StatusCode.OK] * 4
        assert server.process.wait(30) == 0
    assert "Traceback" not in server.log.read_text()


def test_a_server_that_was_killed_serves_again(tmp_path: Path) -> None:
    root = tmp_path / "root"
    models.numbered(root / "n" / "1", 1)
    (root / "n" / "2").mkdir()
    (root / "n" / "2" / "saved_model.pb").write_bytes(b"corrupt")
    ports = free_ports()
    for _ in range(2):
        with Process(tmp_path / "log", f"--model_root={root}", ports=ports) as server:
            server.wait_until("n", 1)
            assert server.clients.post("n:predict", {"instances": [0.0]}).json() == {"predictions": [1.0]}
            server.process.kill()
            server.process.wait()


@pytest.mark.parametrize("case", ["folder", "config", "label", "port"])
def test_starts_that_cannot_succeed(case: str, made: Path, tmp_path: Path) -> None:
    config = tmp_path / "models.config"
    entry = f'name: "half" base_path: "{made / "half"}" model_platform: "tensorflow"'
    config.write_text(
        {
            "config": "model_config_list { config {",
            "label": f'model_config_list {{ config {{ {entry} version_labels {{ key: "x" value: 9 }} }} }}',
        }.get(case, "")
    )
    port, rest_port = free_ports()
    flags = [f"--port={port}", f"--rest_api_port={rest_port}"]
    flags.append(
        {"folder": f"--model_root={tmp_path / 'none'}", "port": f"--model_root={made}"}.get(
            case, f"--model_config_file={config}"
        )
    )
    with _listening(port if case == "port" else 0):
        done = subprocess.run(
            [sys.executable, "-m", "components.serving.server", *flags],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=90,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 2
    message = {
        "folder": "There is no such folder of models",
        "config": "cannot be read as ModelServerConfig",
        "label": "Request to assign label to half version 9",
        "port": "The port cannot be listened on",
    }[case]
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def _listening(port: int) -> object:
    import socket

    listener = socket.socket()
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener

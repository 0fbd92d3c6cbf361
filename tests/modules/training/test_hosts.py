"""Hosts that train along: what the first tells them, and when they take it up."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modules.errors import TrainingError
from modules.training import cluster, hosts, workers


@pytest.fixture
def port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        yield listener


def environment(port: int, index: int, **more: str) -> dict[str, str]:
    return {"TF_CONFIG": cluster.config_json([f"127.0.0.1:{port}", "127.0.0.1:2"], index), **more}


def arguments(folder: Path) -> Any:
    return SimpleNamespace(train_files=["a", "b"], model_run_dir=str(folder), custom_config={"epochs": 3})


def test_only_the_first_of_several_hosts_tells_what_to_call(tmp_path) -> None:
    call = tmp_path / "call.json"
    told = {hosts.VARIABLE: str(call)}
    hosts.announce("a.run_fn", arguments(tmp_path), environment(1, 0))
    hosts.announce("a.run_fn", arguments(tmp_path), told)
    hosts.announce("a.run_fn", arguments(tmp_path), environment(1, 1, **told))
    assert not call.exists()
    hosts.announce("a.run_fn", arguments(tmp_path), environment(1, 0, **told))
    found = json.loads(call.read_text())
    assert found["function"] == "a.run_fn"
    assert found["fn_args"]["train_files"] == ["a", "b"]
    assert found["fn_args"]["custom_config"] == {"epochs": 3}


def test_a_host_calls_what_is_told_when_the_first_has_opened_its_port(tmp_path, port, monkeypatch) -> None:
    """A file of an earlier training, beside a closed port, is let be."""
    called: list[str] = []
    monkeypatch.setattr(workers, "main", lambda path: called.append(Path(path).read_text()))
    call = tmp_path / "call.json"
    call.write_text("earlier")
    waited = threading.Event()

    def first_host_begins(seconds: float) -> None:
        assert called == []
        if not waited.is_set():
            call.write_text("now")
            port.listen()
            waited.set()

    number = port.getsockname()[1]
    hosts.follow(call, environment(number, 1), pause=first_host_begins)
    assert called == ["now"]


def test_a_first_host_that_does_not_come(tmp_path, port) -> None:
    times = iter(range(100))
    with pytest.raises(TrainingError, match="did not begin to train within 5 s") as caught:
        hosts.follow(
            tmp_path / "call.json",
            environment(port.getsockname()[1], 1),
            wait_s=5,
            clock=lambda: float(next(times)),
            pause=lambda seconds: None,
        )
    assert str(tmp_path) in caught.value.place


@pytest.mark.parametrize("environment", [{}, environment(1, 0)], ids=["alone", "first"])
def test_a_host_that_is_not_to_train_along(environment: dict[str, str], tmp_path) -> None:
    with pytest.raises(TrainingError, match="for the hosts that train along"):
        hosts.follow(tmp_path / "call.json", environment)

"""Answers of a real server against the judged ones, and what it takes."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from components.errors import ServableError
from components.infra_validator import ask, model_server, validate
from components.infra_validator.validate import Expected, Limits
from components.infra_validator.worker import Request
from components.rewriter.base import TrainedModel
from components.rewriter.techniques import BUILDS
from components.serving import runtimes
from components.serving.servable import Servable, version_folder
from tests.components.serving.server.running_server import Clients, in_thread, wait_for
from tests.conftest import ROOT

NAMES = ("a", "b")
JUDGED = np.array([[0.25, 0.75], [0.5, 0.5]], np.float32)
CLASSES = [["a", "b"]] * 2
COUNT = 8


def expected(judged: np.ndarray) -> Expected:
    return Expected(judged, 1e-5, "tf_serving")


@pytest.fixture(scope="module")
def servable(model_uri, contract, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("servable")
    trained = TrainedModel(str(model_uri), contract)
    BUILDS["frozen"](trained, version_folder(folder))
    trained.servable("frozen").write(folder)
    return folder


@pytest.fixture(scope="module")
def judged(servable, records) -> np.ndarray:
    return runtimes.load(servable).predict(records).scores


@pytest.fixture
def request_of(servable, examples_uri, tmp_path) -> Request:
    features = {"predict_image": "image"}
    return Request(str(servable), str(examples_uri), "validation", range(COUNT), features, tmp_path)


@pytest.fixture(scope="module")
def answering(servable, tmp_path_factory) -> Iterator[model_server.ModelServer]:
    """A server in this process, as the validator sees one."""
    root = model_server.lay_out(str(servable), tmp_path_factory.mktemp("root"))
    with in_thread(model_base_path=str(root), model_name=model_server.MODEL) as clients:
        yield _as_server(clients)


def _as_server(clients: Clients) -> model_server.ModelServer:
    return model_server.ModelServer("thread", clients.port, clients.rest_port, 0.0, 0)


def test_equal_answers_pass() -> None:
    assert validate.compare(JUDGED.copy(), CLASSES, NAMES, expected(JUDGED)) == []


@pytest.mark.parametrize(
    ("scores", "classes", "fault"),
    [
        (JUDGED[:1], CLASSES, "have shape"),
        (JUDGED + 1e-3, CLASSES, "differ from the judged ones by up to 1.00e-03"),
        (np.array([[np.nan, 0.75], [0.5, 0.5]]), CLASSES, "1 scores are not finite"),
        (JUDGED, [["a", "b"], ["b", "a"]], "class names differ"),
    ],
)
def test_differences_are_named(scores, classes, fault: str) -> None:
    faults = validate.compare(scores, classes, NAMES, expected(JUDGED))
    assert any(fault in item for item in faults)


def test_a_real_server_answers_as_judged_and_is_measured_against_limits(request_of, judged) -> None:
    """Limits that nothing can keep: the only faults are those."""
    verdict = validate.validate(
        request_of, expected(judged), Limits(120.0, max_p99_ms=0.001, max_memory_mb=1.0)
    )
    slow, large = verdict.faults
    assert "ms; infra.max_p99_ms is 0.001" in slow
    assert "MiB; infra.max_memory_mb is 1" in large
    figures = verdict.figures
    assert figures["server"] in (model_server.EMBEDDED, model_server.BINARY)
    assert 0 < figures["p50_ms"] <= figures["p95_ms"] <= figures["p99_ms"]
    assert figures["requests"] > 10
    assert figures["cold_load_s"] > 0.1
    assert figures["memory_mb"] > 100
    verdict.write(str(request_of.folder))
    assert json.loads((request_of.folder / validate.FIGURES_FILE).read_text())["faults"] == verdict.faults


def test_limits_that_are_kept_or_not_given() -> None:
    figures = {"p99_ms": 5.0, "memory_mb": 300.0, "requests": 300}
    assert validate.over_limits(figures, Limits(1.0)) == []
    assert validate.over_limits(figures, Limits(1.0, max_p99_ms=5.0, max_memory_mb=300.0)) == []
    assert len(validate.over_limits(figures, Limits(1.0, max_p99_ms=4.9, max_memory_mb=299.0))) == 2


def test_a_servable_that_does_not_load_is_refused(request_of, judged, servable, tmp_path) -> None:
    broken = tmp_path / "broken"
    version_folder(broken).mkdir(parents=True)
    (version_folder(broken) / "saved_model.pb").write_bytes(b"broken")
    Servable.read(servable).write(broken)
    request = dataclasses.replace(request_of, servable_uri=str(broken))
    verdict = validate.validate(request, expected(judged), Limits(120.0))
    assert len(verdict.faults) == 1
    assert "could not be loaded and asked: the model server" in verdict.faults[0]
    assert verdict.figures == {}


def test_a_server_that_is_never_ready(request_of, judged, tmp_path, monkeypatch) -> None:
    idle = ("idle", [sys.executable, "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(model_server, "_command", lambda embedded_only: idle)
    verdict = validate.validate(request_of, expected(judged), Limits(0.2))
    assert "was not ready in time: its log is empty" in verdict.faults[0]


def test_a_server_that_ends_by_itself(request_of, judged, monkeypatch) -> None:
    ending = ("ending", [sys.executable, "-c", "import sys; print('ERROR: no'); sys.exit(3)"])
    monkeypatch.setattr(model_server, "_command", lambda embedded_only: ending)
    verdict = validate.validate(request_of, expected(judged), Limits(120.0))
    assert "the model server ended with code 3: ERROR: no" in verdict.faults[0]


SERVE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from components.infra_validator import model_server
IDLE = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
model_server._command = lambda embedded_only: ("idle", [sys.executable, "-c", IDLE])
model_server._wait = lambda *arguments: wait(Path(sys.argv[1], "server.log"))
def wait(log):
    while not log.read_text():
        pass
    os.kill(os.getpid(), signal.SIGKILL)
with model_server.serving(Path(sys.argv[1], "root"), seconds=60):
    pass
"""


def test_a_server_that_is_killed_says_nothing_of_the_model(request_of, judged, monkeypatch) -> None:
    """The node fails and can run again; a refusal would stay in the cache."""

    def kill_and_ask(*_: object) -> None:
        psutil.Process(pids[0]).kill()
        raise ServableError("the server does not answer")

    pids: list[int] = []
    monkeypatch.setattr(ask, "Grpc", lambda port: pids.append(_listener(port)) or ask_nothing)
    ask_nothing = type("Nothing", (), {"close": lambda self: None})()
    monkeypatch.setattr(validate, "_answer_faults", kill_and_ask)
    with pytest.raises(model_server.ServerKilledError, match="by signal 9"):
        validate.validate(request_of, expected(judged), Limits(seconds=120.0))


def _listener(port: int) -> int:
    """The process that listens on a port."""
    connections = psutil.net_connections("tcp")
    return next(item.pid for item in connections if item.status == "LISTEN" and item.laddr.port == port)


def test_a_server_that_ends_while_it_loads_is_told_with_its_code(tmp_path, monkeypatch) -> None:
    """A stand-in for TensorFlow Serving's binary, found as that would be."""
    program = tmp_path / "bin" / model_server.BINARY
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'ERROR: no such flag' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    with (
        pytest.raises(ServableError, match="ended with code 3: ERROR: no such flag"),
        model_server.serving(tmp_path / "root", seconds=60),
    ):
        pass


def test_a_server_does_not_outlive_a_validator_that_is_killed(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-c", SERVE_AND_DIE, str(tmp_path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    pid = int((tmp_path / "server.log").read_text())
    wait_for(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_answers_that_differ_are_told_by_signature_and_protocol(
    request_of, judged, servable, answering, records
) -> None:
    grpc = ask.Grpc(answering.port)
    found = Servable.read(servable)
    arguments = (request_of, found, answering, grpc, records[:COUNT])
    assert list(validate._answer_faults(*arguments, expected(judged[:COUNT]))) == []
    faults = list(validate._answer_faults(*arguments, expected(judged[:COUNT] + 1e-3)))
    assert [fault.partition(":")[0] for fault in faults] == [
        f"{signature} by {protocol}"
        for signature in ("serving_default", "predict_image")
        for protocol in ("gRPC", "REST")
    ]
    grpc.close()


def test_a_server_that_refuses(answering, servable, records) -> None:
    found = Servable.read(servable)
    grpc = ask.Grpc(answering.port)
    with pytest.raises(ServableError, match="by gRPC, the server refused: INVALID_ARGUMENT"):
        grpc.predict(found, found.signatures[0], [b"no example"])
    with pytest.raises(ServableError, match="by gRPC, an output cannot be read"):
        grpc.predict(dataclasses.replace(found, scores="other"), found.signatures[0], records[:1])
    grpc.close()


def test_the_very_bytes_are_laid_out_without_a_copy(servable, tmp_path) -> None:
    root = model_server.lay_out(str(servable), tmp_path)
    for path in version_folder(servable).rglob("*"):
        if path.is_file():
            assert (root / "1" / path.relative_to(version_folder(servable))).samefile(path)


def test_other_formats_are_loaded_by_their_runtime(request_of, judged, monkeypatch) -> None:
    monkeypatch.setattr(validate, "SERVED_RUNTIMES", ())
    verdict = validate.validate(request_of, expected(judged), Limits(120.0, max_p99_ms=0.0001))
    assert len(verdict.faults) == 1
    assert "infra.max_p99_ms" in verdict.faults[0]
    assert verdict.figures["server"] == "saved_model runtime"


def test_measuring_ends_by_number_or_by_time() -> None:
    now = [0.0]

    def send(seconds: float) -> None:
        now[0] += seconds

    quick = ask.measure(send, [0.001, 0.002], lambda: now[0])
    assert quick.requests == 300
    assert quick.p50_ms == pytest.approx(1.5)
    assert quick.p99_ms == pytest.approx(2.0)
    slow = ask.measure(send, [0.5], lambda: now[0])
    assert slow.requests == 4
    assert slow.p99_ms == pytest.approx(500.0)

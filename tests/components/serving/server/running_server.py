"""Runs the server in a thread of the test process, or in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from components.serving.server.options import Options

ROOT = Path(__file__).parents[4]


def free_ports() -> tuple[int, int]:
    """Two ports that nothing listens on."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def wait_for(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Asks `condition` until it is true; fails the test when it takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"Not within {seconds} s: {condition}")


@dataclass
class Clients:
    """The stock gRPC stubs and an HTTP client for one server."""

    port: int
    rest_port: int

    def __post_init__(self) -> None:
        self.channel = grpc.insecure_channel(
            f"127.0.0.1:{self.port}",
            [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)],
        )
        self.predictions = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.rest_port}", timeout=30)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        if isinstance(body, (str, bytes)):
            return self.http.post(f"/v1/models/{path}", content=body, **more)
        return self.http.post(f"/v1/models/{path}", json=body, **more)

    def get(self, path: str) -> httpx.Response:
        return self.http.get(f"/v1/models/{path}")

    def states(self, model: str) -> dict[int, str]:
        """State by version; empty for a model that nothing is known of."""
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = model
        state = get_model_status_pb2.ModelVersionStatus.State
        try:
            listed = self.models.GetModelStatus(request, timeout=10).model_version_status
        except grpc.RpcError:
            return {}
        return {item.version: state.Name(item.state) for item in listed}

    def close(self) -> None:
        self.channel.close()
        self.http.close()


@contextlib.contextmanager
def in_thread(**options: Any) -> Iterator[Clients]:
    """A server in this process; ended, with its requests answered, when the block ends."""
    from components.serving.server.server import serve

    port, rest_port = free_ports()
    given = Options(
        **{"port": port, "rest_api_port": rest_port, "file_system_poll_wait_seconds": 0.05, **options}
    )
    ready, ended = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    failures: list[BaseException] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        await serve(given, on_ready=ready.set, stop=ended)

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:
            failures.append(error)
            ready.set()

    thread = threading.Thread(target=main)
    thread.start()
    assert ready.wait(60)
    if failures:
        raise failures[0]
    clients = Clients(given.port, given.rest_api_port)
    try:
        yield clients
    finally:
        clients.close()
        loops[0].call_soon_threadsafe(ended.set)
        thread.join(60)
    assert not thread.is_alive()
    assert not failures, failures


class Process:
    """A server in a process of its own, with its log."""

    def __init__(
        self,
        log: Path,
        *flags: str,
        ports: tuple[int, int] | None = None,
        command: Sequence[str] = ("components.serving.server",),
    ) -> None:
        self.ports = ports or free_ports()
        self.log = log
        ports_given = [f"--port={self.ports[0]}", f"--rest_api_port={self.ports[1]}"]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command, *flags, *ports_given],
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        self.clients = Clients(*self.ports)

    def wait_until(self, model: str, version: int) -> None:
        """Waits until the version is AVAILABLE."""

        def available() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            return self.clients.states(model).get(version) == "AVAILABLE"

        wait_for(available, 90)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.clients.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def error_of(response: Any) -> str:
    """The message of an answer of the REST API that is an error."""
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert list(body) == ["error"]
    return str(body["error"])

"""What answers as a Flink job manager would, and as a gRPC server: on loopback, with no cluster."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc


def manager(host: str, slots: int = 2, physical_mb: int = 16_000, process_mb: int = 1_000) -> dict[str, Any]:
    """A task manager as Flink 1.20 describes it."""
    return {
        "path": f"pekko.tcp://flink@{host}:40683/user/rpc/taskmanager_0",
        "slotsNumber": slots,
        "hardware": {"physicalMemory": physical_mb << 20},
        "memoryConfiguration": {"totalProcessMemory": process_mb << 20},
    }


@contextlib.contextmanager
def job_manager(
    version: str = "1.20.5", free: int | None = None, managers: list[dict[str, Any]] | None = None
) -> Iterator[str]:
    """The address of something that answers as a job manager."""
    there = [manager("10.0.0.1"), manager("10.0.0.2")] if managers is None else managers
    slots = sum(item["slotsNumber"] for item in there)
    answers = {
        "/config": {"flink-version": version},
        "/overview": {
            "taskmanagers": len(there),
            "slots-total": slots,
            "slots-available": slots if free is None else free,
        },
        "/taskmanagers": {"taskmanagers": there},
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(answers[self.path]).encode())

        def log_message(self, *args: object) -> None:
            """Not into the test's output."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def grpc_server() -> Iterator[str]:
    """The address of a gRPC server that knows no method."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(grace=None)

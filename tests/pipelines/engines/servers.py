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
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_job_api_pb2,
    beam_job_api_pb2_grpc,
)


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
def grpc_server(*, beam: bool = True) -> Iterator[str]:
    """The address of a gRPC server that answers as a job server and a pool would, or knows no method."""
    server = grpc.server(futures.ThreadPoolExecutor(1))
    if beam:
        beam_job_api_pb2_grpc.add_JobServiceServicer_to_server(_JobServer(), server)
        beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(_Pool(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(grace=None)


class _JobServer(beam_job_api_pb2_grpc.JobServiceServicer):
    def DescribePipelineOptions(self, request: Any, context: Any) -> Any:
        return beam_job_api_pb2.DescribePipelineOptionsResponse()


class _Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    def StopWorker(self, request: Any, context: Any) -> Any:
        return beam_fn_api_pb2.StopWorkerResponse()

"""Beam workers beside a cluster's own processes: a service that starts one whenever a runner asks.

    python -m components.beam_pool --port 50000         # on every host of the cluster; Ctrl-C ends it

As Beam's own worker pool, with two differences: workers are `beam_boot`'s, and
they are forked from a process that has imported TFX once, so that a job does
not wait half a minute for each. Whoever reaches the port can run code here: it
listens on this host alone unless told otherwise.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent import futures
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import grpc
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from components import beam_boot

# In this order: see `beam_worker`.
PRELOADED = (
    "tfx.components",
    "tensorflow_data_validation",
    "tensorflow_transform.beam",
    "tensorflow_model_analysis",
    "apache_beam.runners.worker.sdk_worker_main",
)
_STOP_S = 10
# Runners ping while they wait for a worker; gRPC's default ends the connection at the third ping in
# five minutes, and imports take longer than that on a busy host.
_PINGS_ARE_WELCOME = (("grpc.http2.max_ping_strikes", 0),)


class Pool(beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolServicer):
    """Beam's service; a process for each worker.

    Args:
        preloaded: modules that the process has imported from which workers are forked.
    """

    def __init__(self, preloaded: Sequence[str] = PRELOADED) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(preloaded))
        # Else the first job would wait for the imports.
        forkserver.ensure_running()
        self._workers: dict[str, tuple[BaseProcess, Path]] = {}
        # A worker that is ended cannot tidy up after itself.
        self._folder = Path(tempfile.mkdtemp(prefix="headrace-pool-"))
        self._lock = threading.Lock()

    def StartWorker(self, request: Any, context: Any) -> Any:
        """Starts a worker; an error goes into the answer, as Beam asks for it."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        call = beam_boot.Call(
            request.worker_id,
            request.provision_endpoint.url or request.control_endpoint.url,
            request.control_endpoint.url,
            request.logging_endpoint.url,
            request.artifact_endpoint.url,
            str(folder),
        )
        try:
            worker = self._context.Process(target=beam_boot.work, args=(call,), daemon=True)
            with self._lock:
                self._reap()
                worker.start()
                self._workers[request.worker_id] = worker, folder
        except Exception as error:
            return beam_fn_api_pb2.StartWorkerResponse(error=f"{type(error).__name__}: {error}")
        print(f"worker {request.worker_id} started, process {worker.pid}", flush=True)
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, context: Any) -> Any:
        """Ends a worker; one that is not there has ended."""
        with self._lock:
            worker = self._workers.pop(request.worker_id, None)
        if worker is not None:
            _end(*worker)
        return beam_fn_api_pb2.StopWorkerResponse()

    def close(self) -> None:
        """Ends all workers."""
        with self._lock:
            workers, self._workers = list(self._workers.values()), {}
        for worker in workers:
            _end(*worker)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _reap(self) -> None:
        for name, (worker, folder) in list(self._workers.items()):
            if not worker.is_alive():
                del self._workers[name]
                shutil.rmtree(folder, ignore_errors=True)


def _end(worker: BaseProcess, folder: Path) -> None:
    worker.terminate()
    worker.join(_STOP_S)
    if worker.is_alive():
        worker.kill()
        worker.join()
    shutil.rmtree(folder, ignore_errors=True)


def serve(port: int, host: str = "127.0.0.1", preloaded: Sequence[str] = PRELOADED) -> tuple[Pool, Any, int]:
    """Starts the service; returns it, its gRPC server, and the port, which 0 lets the system choose.

    Raises:
        OSError: the port is taken.
    """
    pool = Pool(preloaded)
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=_PINGS_ARE_WELCOME)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise OSError(f"{host}:{port} cannot be listened on") from error
    server.start()
    return pool, server, bound


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m components.beam_pool")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 is all.")
    given = parser.parse_args(arguments)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        pool, server, port = serve(given.port, given.host)
    except OSError as error:
        print(f"The pool did not start: {error}. Name another port.", file=sys.stderr)
        return 2
    print(f"listening on {given.host}:{port}", flush=True)
    ended.wait()
    server.stop(grace=None)
    pool.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Whether what listens at an address is what it is said to be: Beam's job service, a pool of its workers.

answers.check_job_server("localhost:8073")
answers.check_pool("localhost:50000")

Each is asked something that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipelines.errors import EngineError

_CONNECT_S = 10.0


def check_job_server(address: str) -> None:
    """Looks at a job server, `host:port`.

    Raises:
        EngineError: nothing answers there, or something else.
    """
    from apache_beam.portability.api import beam_job_api_pb2, beam_job_api_pb2_grpc

    def ask(channel: Any) -> None:
        stub = beam_job_api_pb2_grpc.JobServiceStub(channel)
        stub.DescribePipelineOptions(
            beam_job_api_pb2.DescribePipelineOptionsRequest(), timeout=_CONNECT_S, wait_for_ready=True
        )

    remedy = (
        "Start it, or name one that runs; for Flink, without beam.job_endpoint one is started for each job."
    )
    _check(address, ask, "job server", "beam.job_endpoint", remedy)


def check_pool(address: str) -> None:
    """Looks at a pool of Beam workers, `host:port`.

    Raises:
        EngineError: nothing answers there, or something else.
    """
    from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

    def ask(channel: Any) -> None:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        # Of a worker that there is not: Beam's own pool, and ours, take it for ended.
        nobody = beam_fn_api_pb2.StopWorkerRequest(worker_id="headrace-look")
        stub.StopWorker(nobody, timeout=_CONNECT_S, wait_for_ready=True)

    port = address.rpartition(":")[2]
    remedy = f"Start it beside each task manager: python -m components.beam_pool --port {port}."
    _check(address, ask, "pool of Beam workers", "beam.pool", remedy)


def _check(address: str, ask: Callable[[Any], None], what: str, setting: str, remedy: str) -> None:
    import grpc

    place = f"{setting}: {address}"
    with grpc.insecure_channel(address) as channel:
        try:
            ask(channel)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                raise EngineError(f"What answers is no {what}", place=place, remedy=remedy) from error
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise EngineError(f"The {what} cannot be reached", place=place, remedy=remedy) from error
            # Whatever else it says, it is one.

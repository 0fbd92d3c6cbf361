"""Whether what listens at an address is what it is said to be: Beam's job service, a pool of its workers.

answers.check_job_server("localhost:8073")
answers.check_pool("localhost:50000")

Each is asked something that changes nothing.
"""

from __future__ import annotations

from typing import Any

from pipelines.engines import ask
from pipelines.errors import EngineError

_CONNECT_S = 10.0


def check_job_server(address: str) -> None:
    """Looks at a job server, `host:port`.

    Raises:
        EngineError: nothing answers there, or something else.
    """
    from apache_beam.portability.api import beam_job_api_pb2

    remedy = (
        "Start it, or name one that runs; for Flink, without beam.job_endpoint one is started for each job."
    )
    method = _method(beam_job_api_pb2, "JobService", "DescribePipelineOptions")
    request = beam_job_api_pb2.DescribePipelineOptionsRequest()
    _check(address, method, request, "job server", "beam.job_endpoint", remedy)


def check_pool(address: str) -> None:
    """Looks at a pool of Beam workers, `host:port`.

    Raises:
        EngineError: nothing answers there, or something else.
    """
    from apache_beam.portability.api import beam_fn_api_pb2

    port = address.rpartition(":")[2]
    remedy = f"Start it beside each task manager: python -m components.beam_pool --port {port}."
    method = _method(beam_fn_api_pb2, "BeamFnExternalWorkerPool", "StopWorker")
    # Of a worker that there is not: Beam's own pool, and ours, take it for ended.
    request = beam_fn_api_pb2.StopWorkerRequest(worker_id="headrace-look")
    _check(address, method, request, "pool of Beam workers", "beam.pool", remedy)


def _method(module: Any, service: str, method: str) -> str:
    return f"/{module.DESCRIPTOR.services_by_name[service].full_name}/{method}"


def _check(address: str, method: str, request: Any, what: str, setting: str, remedy: str) -> None:
    place = f"{setting}: {address}"
    status = ask.status(address, method, request.SerializeToString(), _CONNECT_S)
    if status == "UNIMPLEMENTED":
        raise EngineError(f"What answers is no {what}", place=place, remedy=remedy)
    if status in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
        raise EngineError(f"The {what} cannot be reached", place=place, remedy=remedy)
    # Whatever else it says, it is one.

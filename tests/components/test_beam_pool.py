"""Workers of the pool for Beam's own job service: what is wrong with a host reaches the job's owner."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc

from components import beam_boot, beam_pool
from components.errors import EngineError
from pipelines.beam_stage import Beam
from pipelines.engines import options
from pipelines.runners.beam_pipelines import pipeline_maker


@pytest.fixture(scope="module")
def settings(tmp_path_factory) -> Iterator[Beam]:
    """A job service and a pool, both in this process; workers in their own."""
    from apache_beam.runners.portability import local_job_service

    service = local_job_service.LocalJobServicer(str(tmp_path_factory.mktemp("staged")))
    job_port = service.start_grpc_server(0)
    pool, server, port = beam_pool.serve(0, preloaded=["apache_beam.runners.worker.sdk_worker_main"])
    yield Beam(runner="portable", job_endpoint=f"localhost:{job_port}", pool=f"localhost:{port}")
    (made,) = Path(tempfile.gettempdir()).glob(f"headrace-pool-*{pool._folder.name[-8:]}")
    pool.close()
    assert not made.exists()
    server.stop(grace=None)
    service.stop()


def fails(settings: Beam, **job: object) -> EngineError:
    """Runs a job of one step; how it failed."""
    import apache_beam as beam

    make = pipeline_maker(options.of(settings, options.Job(**job)))
    with pytest.raises(EngineError) as caught, make() as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(print)
    return caught.value


def test_a_worker_without_a_package(settings: Beam, tmp_path) -> None:
    wheel = tmp_path / f"{beam_boot.PREFIX}0.1.0+aa-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        contents = {"packages": {"a-package-that-is-not-there": "1.0"}, "tops": []}
        archive.writestr(beam_boot.CONTENTS, json.dumps(contents))
    error = fails(settings, wheel=wheel)
    assert error.headline.endswith("a-package-that-is-not-there missing instead of 1.0")
    assert "requirements.lock" in error.remedy


def test_a_worker_that_does_not_see_the_folder(settings: Beam) -> None:
    error = fails(settings, markers=(Path("/not/on/this/host/seen"),))
    assert error.headline == "A Beam worker does not see the folder that the job's files lie in"
    assert error.place.endswith(": /not/on/this/host")


def test_a_runner_that_waits_long_for_a_worker_keeps_its_connection() -> None:
    """On a busy host a worker may come after minutes, in which a runner pings; Beam's does every 20 s."""
    pool, server, port = beam_pool.serve(0, preloaded=["apache_beam.runners.worker.sdk_worker_main"])
    pings = [("grpc.keepalive_time_ms", 200), ("grpc.http2.max_pings_without_data", 0)]
    with grpc.insecure_channel(f"localhost:{port}", options=pings) as channel:
        stub = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
        with pool._lock:
            answer = stub.StartWorker.future(beam_fn_api_pb2.StartWorkerRequest(worker_id="late"))
            with pytest.raises(grpc.FutureTimeoutError):
                answer.result(timeout=3)
        assert answer.result(timeout=60).error == ""
    pool.close()
    server.stop(grace=None)

"""Beam's pipeline options from the `beam:` group of an experiment.

    arguments = options.of(settings, Job(parallelism=8, workers_per_host=4, wheel=wheel))

Nothing is asked of a cluster here; `prepare` does that and fills in `Job`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from components.beam_boot import OPTION
from pipelines.beam_stage import Beam

SHARDS = "headrace_shards"
"""Pipeline option of ours: files per split, read by `runners.beam_job`."""


@dataclass(frozen=True)
class Job:
    """What is found out about a job before it starts.

    Attributes:
        parallelism: parts of a step that run at once; 0 leaves it to the engine.
        workers_per_host: Python workers beside each task manager.
        shards: files per split; 0 leaves it to Beam.
        version: of Flink.
        job_server_jar: of the job server that each job starts; empty where one runs already.
        wheel: with our code; none where an image has it.
        markers: files that every worker must see.
    """

    parallelism: int = 0
    workers_per_host: int = 1
    shards: int = 0
    version: str = ""
    job_server_jar: str = ""
    wheel: Path | None = None
    markers: tuple[Path, ...] = ()


def of(settings: Beam, job: Job) -> list[str]:
    """All options but the experiment's own `args`, which come behind them."""
    if settings.runner == "local":
        return [*_local(settings, job), *_shards(job)]
    engine = {"flink": _flink, "portable": _portable, "spark": _spark, "dataflow": _dataflow}
    common = _dataflow_workers if settings.runner == "dataflow" else _workers
    return [*engine[settings.runner](settings, job), *common(settings, job), *_common(settings, job)]


def _local(settings: Beam, job: Job) -> Iterator[str]:
    if job.parallelism:
        yield from _pool(settings)
        yield f"--direct_num_workers={job.parallelism}"


def _flink(settings: Beam, job: Job) -> Iterator[str]:
    if settings.job_endpoint is not None:
        yield from ("--runner=PortableRunner", f"--job_endpoint={settings.job_endpoint}")
    else:
        yield "--runner=FlinkRunner"
    yield f"--flink_master={settings.address}"
    if job.version:
        yield f"--flink_version={job.version}"
    if jar := job.job_server_jar or settings.job_server_jar:
        yield f"--flink_job_server_jar={jar}"
    if job.parallelism:
        yield f"--parallelism={job.parallelism}"
    if settings.bundle is not None:
        yield f"--max_bundle_size={settings.bundle}"


def _portable(settings: Beam, job: Job) -> Iterator[str]:
    yield from ("--runner=PortableRunner", f"--job_endpoint={settings.job_endpoint}")
    if job.parallelism:
        yield f"--parallelism={job.parallelism}"


def _spark(settings: Beam, job: Job) -> Iterator[str]:
    if settings.job_endpoint is not None:
        yield from ("--runner=PortableRunner", f"--job_endpoint={settings.job_endpoint}")
        return
    yield from ("--runner=SparkRunner", f"--spark_master_url={settings.address}")
    if jar := job.job_server_jar or settings.job_server_jar:
        yield f"--spark_job_server_jar={jar}"


def _dataflow(settings: Beam, job: Job) -> Iterator[str]:
    yield "--runner=DataflowRunner"
    yield from (f"--project={settings.project}", f"--region={settings.region}")
    if job.parallelism:
        yield f"--max_num_workers={job.parallelism}"


def _dataflow_workers(settings: Beam, job: Job) -> Iterator[str]:
    # Beam's own entry point of such containers takes the image as it is.
    yield from (f"--sdk_container_image={settings.image}", "--sdk_location=container")


def _workers(settings: Beam, job: Job) -> Iterator[str]:
    yield f"--sdk_worker_parallelism={job.workers_per_host}"
    if settings.workers == "pool":
        yield from _pool(settings)
    elif settings.workers == "loopback":
        yield "--environment_type=LOOPBACK"
    elif settings.workers == "container":
        yield from ("--environment_type=DOCKER", f"--environment_config={settings.image}")
    else:
        yield "--environment_type=PROCESS"
        yield f"--environment_config={json.dumps({'command': str(_boot_command())})}"


def _pool(settings: Beam) -> Iterator[str]:
    yield from ("--environment_type=EXTERNAL", f"--environment_config={settings.pool}")


def _boot_command() -> Path:
    """The program that a runner starts with its arguments: beside this Python, as set-up puts it."""
    return Path(sys.executable).with_name("headrace-beam-worker")


def _common(settings: Beam, job: Job) -> Iterator[str]:
    yield f"--max_cache_memory_usage_mb={settings.cache_mb}"
    if settings.temp_location is not None:
        yield f"--temp_location={settings.temp_location}"
    if job.wheel is not None:
        yield f"--extra_package={job.wheel}"
    for marker in job.markers:
        yield f"--{OPTION}={marker}"
    yield from _shards(job)


def _shards(job: Job) -> Iterator[str]:
    if job.shards:
        yield f"--{SHARDS}={job.shards}"

"""Looks at an engine before a job is given to it, and packs what its workers need.

    arguments = prepare(experiment.beam, Path("workspace"), modules, size)

What would fail minutes later, on another machine and in a log there, is said here.
"""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Sequence
from pathlib import Path

import psutil

from pipelines.beam_stage import Beam
from pipelines.engines import answers, flink, options, package, sizing
from pipelines.engines.flink import Host
from pipelines.errors import EngineError

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "0.0.0.0")
FOLDER = ".beam-workers"
"""Below a workspace: what workers get, and a file by which they tell that they see it."""

_MARKER = "seen"


def prepare(settings: Beam, folder: Path, user_modules: Sequence[str], size: int | None) -> list[str]:
    """Beam's options for jobs on this engine; the experiment's own `args` are to follow them.

    Args:
        settings: of the experiment.
        folder: that the jobs read and write below; a workspace.
        user_modules: that workers need, by dotted name.
        size: of the input, bytes; None where it is not known.

    Raises:
        EngineError: the engine cannot be reached, does not fit, or has too little room.
        OSError: the folder cannot be written.
    """
    if settings.runner == "local":
        return _on_this_machine(settings, size)
    _check_folder(settings, folder)
    sizing.check_space(folder, size)
    cluster = _cluster(settings)
    if settings.job_endpoint is not None:
        answers.check_job_server(settings.job_endpoint)
    _check_pool(settings)
    jar = "" if settings.job_endpoint is not None else _job_server(settings, cluster)
    workers = sizing.workers_per_host(settings, cluster)
    if cluster is not None:
        sizing.check_memory(settings, cluster.hosts, workers)
    elif _here(settings):
        sizing.check_memory(settings, _this_host(), workers)
    return options.of(
        settings,
        options.Job(
            parallelism=sizing.parallelism(settings, size, cluster),
            workers_per_host=workers,
            shards=sizing.shards(settings, size),
            version=cluster.version if cluster else "",
            job_server_jar=jar,
            wheel=None if settings.workers == "loopback" else package.build(user_modules, folder / FOLDER),
            markers=tuple(_markers(settings, folder)),
        ),
    )


def _on_this_machine(settings: Beam, size: int | None) -> list[str]:
    """Workers of the pool where a number is given, else this process."""
    count = 0 if settings.parallelism == "auto" else settings.parallelism
    if count:
        _check_pool(settings)
        sizing.check_memory(settings, _this_host(), count, "beam.parallelism")
    return options.of(settings, options.Job(parallelism=count, shards=sizing.shards(settings, size)))


def _this_host() -> dict[str, Host]:
    return {"localhost": Host(1, 0, psutil.virtual_memory().total >> 20, 0)}


def _check_folder(settings: Beam, folder: Path) -> None:
    if settings.runner == "dataflow":
        raise EngineError(
            "Dataflow's workers do not see a folder of this machine",
            place=f"--workspace {folder}",
            remedy="Compile for Vertex, with a pipeline_root that begins with gs://: headrace compile.",
        )


def _cluster(settings: Beam) -> flink.Cluster | None:
    if settings.runner != "flink" or settings.address is None:
        return None
    cluster = flink.look(settings.address)
    version = flink.check_version(cluster, settings.version, settings.address)
    if settings.job_server_jar is not None:
        flink.check_jar(settings.job_server_jar, version, importlib.metadata.version("apache-beam"))
    return cluster


def _job_server(settings: Beam, cluster: flink.Cluster | None) -> str:
    """The jar of the job server that each job starts, as a local path."""
    if shutil.which("java") is None:
        raise EngineError(
            "Beam's job server needs Java, and there is none on this machine",
            place="PATH",
            remedy="Install Java 17, or run a job server elsewhere and name it with beam.job_endpoint.",
        )
    jar = settings.job_server_jar
    if jar is not None and "://" not in jar and not Path(jar).is_file():
        raise EngineError(
            "The job server's jar is not there",
            place=f"beam.job_server_jar: {jar}",
            remedy="Check the path, or leave it out: Beam then fetches the jar from Maven Central.",
        )
    target = f"runners:flink:{cluster.version}:job-server:shadowJar" if cluster else _SPARK_JOB_SERVER
    return _fetched(jar, target)


_SPARK_JOB_SERVER = "runners:spark:3:job-server:shadowJar"


def _fetched(jar: str | None, target: str) -> str:
    """The jar as a local path; Beam keeps what it fetched, below the home folder."""
    from apache_beam.utils.subprocess_server import JavaJarServer

    source = jar or JavaJarServer.path_to_beam_jar(target)
    try:
        return str(JavaJarServer.local_jar(source))
    except (OSError, RuntimeError) as error:
        raise EngineError(
            f"Beam's job server cannot be fetched: {error}",
            place=source,
            remedy="Bring the file to this machine and name it with beam.job_server_jar, or name a job "
            "server that runs with beam.job_endpoint.",
        ) from error


def _check_pool(settings: Beam) -> None:
    """A pool on loopback can be looked at from here only where the engine is on this machine too."""
    local = _host(settings.pool) in _LOOPBACK
    here = settings.runner == "local" or _here(settings)
    if settings.workers == "pool" and (here or not local):
        answers.check_pool(settings.pool)


def _here(settings: Beam) -> bool:
    """Whether the engine is on this machine."""
    engine = settings.job_endpoint or (settings.address or "").partition("://")[2]
    return _host(engine.partition("/")[0]) in _LOOPBACK


def _host(address: str) -> str:
    return address.rpartition(":")[0] or address


def _markers(settings: Beam, folder: Path) -> list[Path]:
    folders = [folder / FOLDER]
    if settings.temp_location is not None and "://" not in settings.temp_location:
        folders.append(Path(settings.temp_location).absolute() / FOLDER)
    for each in folders:
        each.mkdir(parents=True, exist_ok=True)
        (each / _MARKER).touch()
    return [each / _MARKER for each in folders]

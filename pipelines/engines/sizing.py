"""How wide a job is made, from the size of what it reads; and whether it fits.

size = size_of("data/")
shards(settings, size), parallelism(settings, size, cluster)
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from pathlib import Path

from pipelines.beam_stage import Beam
from pipelines.engines.flink import Cluster, Host
from pipelines.errors import EngineError

SHARD_BYTES = 64 << 20
"""Of input, for each file of a split: seconds of reading, and large enough for any store."""

WORKER_BYTES = 16 << 20
"""Of input, for which another worker pays: below, its start costs more than it saves."""

SPACE = 4
"""Times the input's size: examples, transformed examples, and what Beam writes before it renames."""


def size_of(path: str | None) -> int | None:
    """Bytes of the files at a local path, below it where it is a folder; None for URLs and patterns."""
    if path is None or "://" in path:
        return None
    found = Path(path)
    if found.is_file():
        return found.stat().st_size
    if found.is_dir():
        return sum(file.stat().st_size for file in found.rglob("*") if file.is_file())
    return None


def shards(settings: Beam, size: int | None) -> int:
    """Files per split; 0 leaves it to Beam."""
    if settings.shards != "auto":
        return settings.shards
    if settings.runner == "local":
        return 0
    return max(1, math.ceil((size or 0) / SHARD_BYTES))


def parallelism(settings: Beam, size: int | None, cluster: Cluster | None) -> int:
    """Parts of a step that run at once; 0 leaves it to the engine.

    Raises:
        EngineError: more than the cluster has free slots for.
    """
    if cluster is None:
        return 0 if settings.parallelism == "auto" else settings.parallelism
    if settings.parallelism == "auto":
        wanted = cluster.slots if size is None else math.ceil(size / WORKER_BYTES)
        settled = max(1, min(wanted, cluster.free))
    else:
        settled = settings.parallelism
    if settled > cluster.free:
        # Flink would wait for slots, and give up after minutes.
        raise EngineError(
            f"The job needs {settled} slots, but {cluster.free} of the cluster's {cluster.slots} are free",
            place=f"beam.parallelism, beam.address: {settings.address}",
            remedy="Ask for fewer, add task managers, or wait for the other jobs.",
        )
    return settled


def workers_per_host(settings: Beam, cluster: Cluster | None) -> int:
    """Python workers beside each task manager."""
    if settings.workers_per_host != "auto":
        return settings.workers_per_host
    return cluster.slots_per_task_manager if cluster else 1


def check_memory(
    settings: Beam, hosts: Mapping[str, Host], workers: int, setting: str = "beam.workers_per_host"
) -> None:
    """That each host has room for its workers.

    Args:
        settings: of the experiment.
        hosts: address -> what is there.
        workers: beside each task manager.
        setting: that their number comes from.

    Raises:
        EngineError: one has not.
    """
    for address, host in hosts.items():
        count = workers * host.task_managers
        needed = count * settings.worker_memory_mb + host.process_mb
        if host.memory_mb and needed > host.memory_mb:
            raise EngineError(
                f"The job would not fit: {count} Python workers of {settings.worker_memory_mb} MiB and task "
                f"managers of {host.process_mb} MiB need {needed} MiB, and the host has {host.memory_mb}",
                place=f"{setting}, host {address}",
                remedy=f"Lower {setting} or beam.worker_memory_mb, or use more hosts.",
            )


def check_space(folder: Path, size: int | None) -> None:
    """That what a run writes of its input has room.

    Raises:
        EngineError: it has not.
    """
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(there).free
    if size is not None and SPACE * size > free:
        raise EngineError(
            f"The job would not fit: {SPACE} times {size >> 20} MiB of input are written, "
            f"and {free >> 20} MiB are free",
            place=str(folder),
            remedy="Use a workspace on a larger disk, or free space.",
        )

"""What a Flink cluster says of itself, by its REST interface.

cluster = flink.look("http://localhost:8081")       # version, free slots, hosts
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from pipelines.errors import EngineError, nearest

VERSIONS = ("1.19", "1.20", "2.0", "2.1", "2.2")
"""Of Flink, that Beam 2.77 has job servers for."""

_SECONDS = 10.0
_JAR = re.compile(r"beam-runners-flink-(?P<flink>[0-9.]+)-job-server-(?P<beam>[0-9.]+)\.jar$")


@dataclass(frozen=True)
class Host:
    """A machine with task managers: their number, their slots, its memory in MiB, and theirs."""

    task_managers: int
    slots: int
    memory_mb: int
    process_mb: int


@dataclass(frozen=True)
class Cluster:
    """A cluster as it is now.

    Attributes:
        version: major and minor.
        slots: of all task managers.
        free: of these, in no job's use.
        hosts: address -> what is there.
    """

    version: str
    slots: int
    free: int
    hosts: Mapping[str, Host] = field(default_factory=dict)

    @property
    def slots_per_task_manager(self) -> int:
        managers = sum(host.task_managers for host in self.hosts.values())
        return max(1, self.slots // managers) if managers else 1


def look(address: str) -> Cluster:
    """Asks the job manager.

    Raises:
        EngineError: it does not answer, is no Flink, or has no task manager.
    """
    version = str(_ask(address, "config").get("flink-version", ""))
    numbers = re.match(r"[0-9]+\.[0-9]+", version)
    if numbers is None:
        raise _no_flink(address, f"its version is {version!r}")
    overview = _ask(address, "overview")
    managers = _ask(address, "taskmanagers").get("taskmanagers", [])
    if not managers:
        raise EngineError(
            "The Flink cluster has no task manager",
            place=f"beam.address: {address}",
            remedy="Start some (make flink starts two on this machine), and look at their logs.",
        )
    hosts = _hosts(managers)
    return Cluster(numbers[0], int(overview["slots-total"]), int(overview["slots-available"]), hosts)


def _ask(address: str, what: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{address.rstrip('/')}/{what}", timeout=_SECONDS) as answer:
            found = json.loads(answer.read())
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise EngineError(
            f"The Flink cluster cannot be reached: {reason}",
            place=f"beam.address: {address}",
            remedy="Name the REST address of its job manager; make flink starts a cluster on this machine.",
        ) from error
    except ValueError as error:
        raise _no_flink(address, "it does not answer in JSON") from error
    if not isinstance(found, dict):
        raise _no_flink(address, "its answer is no object")
    return found


def _no_flink(address: str, why: str) -> EngineError:
    return EngineError(
        f"What answers is no Flink job manager: {why}",
        place=f"beam.address: {address}",
        remedy="Name the REST address of Flink's job manager, which also shows its pages.",
    )


def _hosts(managers: list[dict[str, Any]]) -> dict[str, Host]:
    found: dict[str, Host] = {}
    for manager in managers:
        # pekko.tcp://flink@10.0.0.7:6122/user/rpc/taskmanager_0
        address = re.sub(r"^.*@", "", str(manager.get("path", ""))).partition("/")[0].rpartition(":")[0]
        before = found.get(address, Host(0, 0, 0, 0))
        used = manager.get("memoryConfiguration", {}).get("totalProcessMemory") or 0
        found[address] = Host(
            before.task_managers + 1,
            before.slots + int(manager.get("slotsNumber", 0)),
            int(manager.get("hardware", {}).get("physicalMemory", 0)) >> 20,
            before.process_mb + (int(used) >> 20),
        )
    return found


def check_version(cluster: Cluster, wanted: str | None, address: str) -> str:
    """The version whose job server is to be used.

    Raises:
        EngineError: the cluster's is another than that wanted, or Beam has none for it.
    """
    if wanted is not None and wanted != cluster.version:
        raise EngineError(
            f"The cluster is Flink {cluster.version}, not {wanted}",
            place=f"beam.version: {wanted}, beam.address: {address}",
            remedy=f"Set beam.version to '{cluster.version}' or leave it out, or name another cluster.",
        )
    if cluster.version not in VERSIONS:
        raise EngineError(
            f"Beam 2.77 has no job server for Flink {cluster.version}",
            place=f"beam.address: {address}",
            remedy=f"Run a cluster of one of {', '.join(VERSIONS)}. {nearest(cluster.version, VERSIONS)}",
        )
    return cluster.version


def check_jar(jar: str, flink: str, beam: str) -> None:
    """That a job server's jar, where its name tells, is for this Flink and this Beam.

    Raises:
        EngineError: it is for others.
    """
    named = _JAR.search(PurePosixPath(jar).name)
    if named is None:
        return
    for what, has, needs in (("Flink", named["flink"], flink), ("Beam", named["beam"], beam)):
        if has != needs:
            raise EngineError(
                f"The job server is for {what} {has}, but {what} is {needs}",
                place=f"beam.job_server_jar: {jar}",
                remedy=f"Use beam-runners-flink-{flink}-job-server-{beam}.jar.",
            )

"""Removes artifact payloads that nothing needs any more; what was recorded of them stays.

    found = plan(workspace, source, Policy(keep_runs=3, keep_days=7), now)
    done = clean(workspace, Policy(...), now)

Kept is what the newest runs of each experiment read and wrote (the last
complete one is always among them, so that the cache goes on working), what
young and running runs did, and what the runs did whose pushed version is still
in its serving root. A later run that would have taken a removed payload from
the cache finds that it is gone, and executes.

Folders go to the workspace's trash by renaming, whole, while no other process
is in the record; they are deleted afterwards. So whenever this is killed, each
payload is whole or gone, and the next call empties the trash.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from components.serving_pusher import root as serving_root
from pipelines import leases, recovery
from pipelines.errors import WorkspaceError
from pipelines.lineage import models
from pipelines.lineage.open import record_of
from pipelines.lineage.records import RunRecord
from pipelines.lineage.source import Push, Source
from pipelines.lineage.store import CLEANING, COMPLETE, REFUSED, Store
from pipelines.workspace import Workspace

DAY_S = 86_400.0
_EVERY_RUN = 1 << 30
_ENDED_WELL = (COMPLETE, REFUSED)


@dataclass(frozen=True)
class Policy:
    """What stays.

    Attributes:
        keep_runs: the newest complete runs of each experiment; at least 1.
        keep_days: and all runs younger than this.
    """

    keep_runs: int
    keep_days: float


@dataclass(frozen=True)
class Removal:
    """A folder that goes.

    Attributes:
        kind: `payload` of an artifact, `leftover` of an execution, `training` state, or `fetched` data.
        owner: experiment and node.
        path: the folder.
        artifacts: ids of what lies in it; empty where it was never recorded.
    """

    kind: str
    owner: str
    path: Path
    artifacts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What goes, and the runs for whose sake other things stay: run id -> why."""

    removals: Sequence[Removal]
    kept: Mapping[str, str]


@dataclass(frozen=True)
class Done:
    """What went: bytes freed, those of an earlier, killed call included."""

    plan: Plan
    bytes: int
    execution_id: int | None


@dataclass
class _Needed:
    """Executions and artifact folders of kept runs."""

    executions: set[int] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)


def plan(workspace: Workspace, source: Source, policy: Policy, now: float) -> Plan:
    """What would go now.

    Args:
        workspace: where.
        source: its record, opened.
        policy: what stays.
        now: seconds since the epoch.
    """
    runs = source.find_runs("", "", _EVERY_RUN)
    kept = dict(_kept(workspace, source, runs, policy, now))
    needed = _needed(source, kept)
    removals = [
        *_payloads(workspace, source, needed),
        *_leftovers(workspace, needed),
        # At least a day: a run that was interrupted just now goes on from its state.
        *_training(workspace, runs, kept, now - max(policy.keep_days, 1.0) * DAY_S),
        *_fetched(workspace, now - max(policy.keep_days, 1.0) * DAY_S),
    ]
    return Plan(removals, kept)


def _kept(
    workspace: Workspace, source: Source, runs: Sequence[RunRecord], policy: Policy, now: float
) -> Iterator[tuple[str, str]]:
    """Runs and why they are kept; of several reasons the last one is told."""
    seen: dict[str, int] = {}
    for run in runs:  # newest first
        if now - run.started < policy.keep_days * DAY_S:
            yield run.run_id, f"younger than {policy.keep_days:g} days"
        if run.experiment not in seen:
            yield run.run_id, "the newest of its experiment"
        seen.setdefault(run.experiment, 0)
        if run.state in _ENDED_WELL:
            seen[run.experiment] += 1
            if seen[run.experiment] <= max(policy.keep_runs, 1):
                yield run.run_id, f"among the newest {max(policy.keep_runs, 1)} that completed"
        if leases.is_alive(workspace.run_folder(run.run_id)):
            yield run.run_id, "running"
    for push in source.pushes():
        run_id = models.run_id_of(source, push) if _is_there(push) else ""
        if run_id:
            yield run_id, f"pushed {push.name}, which is there"


def _is_there(push: Push) -> bool:
    """Whether a version is in its serving root, in service or not; elsewhere it is taken to be."""
    if "://" in push.destination:
        return True
    return serving_root.folder_of(Path(push.destination).parent, push.version) is not None


def _times(folder: Path) -> Iterator[float]:
    for path in [folder, *folder.rglob("*")] if folder.is_dir() else ():
        try:
            yield path.stat().st_mtime
        except FileNotFoundError:  # a run that goes on
            continue


def _needed(source: Source, kept: Iterable[str]) -> _Needed:
    needed = _Needed()
    for run_id in kept:
        needed.executions.update(source.run_executions(run_id))
    edges = [*source.inputs(needed.executions), *source.outputs(needed.executions)]
    artifacts = source.artifacts(edge.artifact for edge in edges)
    needed.folders.update(artifact.uri for artifact in artifacts.values())
    return needed


def _payloads(workspace: Workspace, source: Source, needed: _Needed) -> Iterator[Removal]:
    """Folders as TFX lays them out: <experiment>/<node>/<key>/<execution>."""
    found = [path for path in workspace.artifacts.glob("*/*/*/*") if _execution_of(path) is not None]
    gone = [
        path
        for path in found
        if ".system" not in path.parts
        and str(path) not in needed.folders
        and _execution_of(path) not in needed.executions
    ]
    written = source.outputs({number for path in gone if (number := _execution_of(path)) is not None})
    by_folder: dict[str, list[int]] = {}
    for number, artifact in source.artifacts(edge.artifact for edge in written).items():
        by_folder.setdefault(artifact.uri, []).append(number)
    for path in sorted(gone):
        artifacts = tuple(sorted(by_folder.get(str(path), ())))
        owner = "/".join(path.relative_to(workspace.artifacts).parts[:2])
        yield Removal("payload" if artifacts else "leftover", owner, path, artifacts)


def _execution_of(path: Path) -> int | None:
    return int(path.name) if path.name.isdecimal() else None


def _leftovers(workspace: Workspace, needed: _Needed) -> Iterator[Removal]:
    """What TFX keeps of each execution for itself."""
    for path in sorted(workspace.artifacts.glob("*/*/.system/*/*")):
        number = _execution_of(path)
        if number is not None and number not in needed.executions:
            owner = "/".join(path.relative_to(workspace.artifacts).parts[:2])
            yield Removal("leftover", owner, path)


def _training(
    workspace: Workspace, runs: Sequence[RunRecord], kept: Mapping[str, str], before: float
) -> Iterator[Removal]:
    """State of trainings that nobody went on with for as long as runs are kept."""
    busy = {run.experiment for run in runs if kept.get(run.run_id) == "running"}
    for path in sorted(workspace.training.glob("*/*")):
        if path.is_dir() and path.parent.name not in busy and max(_times(path)) < before:
            yield Removal("training", path.parent.name, path)


def _fetched(workspace: Workspace, before: float) -> Iterator[Removal]:
    """Copies of data from elsewhere that no run has asked for so long; a later one fetches them again."""
    for path in sorted(workspace.fetched.glob("[0-9a-f]*")):
        if path.is_dir() and path.stat().st_mtime < before:
            yield Removal("fetched", "data", path)


def size(path: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(item.lstat().st_size for item in path.rglob("*") if item.is_file() and not item.is_symlink())


def clean(workspace: Workspace, policy: Policy, now: float) -> Done:
    """Removes what a plan of this moment says, and records that.

    Raises:
        WorkspaceError: the workspace cannot be written.
    """
    trash = workspace.root / ".trash"
    recovery.settle_dead(workspace)
    try:
        # What holds this lock is not taken for killed.
        with leases.shared(recovery.operations_lock(workspace.root)):
            found, number = _move(workspace, policy, now, trash)
            freed = _empty(trash)
            if number is not None:
                with Store(workspace.database) as store:
                    store.annotate_execution(number, {"bytes": freed})
                    store.end_operation(number, ok=True)
    except OSError as error:
        raise WorkspaceError(
            f"The workspace cannot be cleaned: {error.strerror or error}",
            place=str(error.filename or workspace.root),
            remedy="Make it writable.",
        ) from error
    return Done(found, freed, number)


def _move(workspace: Workspace, policy: Policy, now: float, trash: Path) -> tuple[Plan, int | None]:
    """Plans, records, and moves folders to the trash while no other process is in the record."""
    with workspace.database.exclusive():
        with record_of(workspace) as source:
            found = plan(workspace, source, policy, now)
        if not found.removals:
            return found, None
        number = _begin(workspace, found, policy, now)
        trash.mkdir(exist_ok=True)
        for index, removal in enumerate(found.removals):
            removal.path.rename(trash / f"{number}-{index}")
    return found, number


def _begin(workspace: Workspace, found: Plan, policy: Policy, now: float) -> int:
    properties: dict[str, str | int | float] = {
        "at": now,
        "keep_runs": policy.keep_runs,
        "keep_days": policy.keep_days,
        "folders": len(found.removals),
    }
    artifacts = sorted({number for removal in found.removals for number in removal.artifacts})
    with Store(workspace.database) as store:
        return store.begin_operation(CLEANING, properties, {"removed": artifacts})


def _empty(trash: Path) -> int:
    if not trash.exists():
        return 0
    freed = size(trash)
    shutil.rmtree(trash, onerror=_unless_gone)
    return freed


def _unless_gone(_: object, __: str, error: tuple[type[BaseException], BaseException, object]) -> None:
    """Another call may empty the same trash."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]

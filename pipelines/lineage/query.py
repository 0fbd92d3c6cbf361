"""Questions to the record: what made this, what came of it, what was serving then. Pure over a `Source`.

target = resolve(source, "digits@3")
lineage = trace_up(source, target)
push, replaced = serving_at(source.pushes("digits"), when)
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.errors import NotFoundError, nearest
from pipelines.lineage import models, record
from pipelines.lineage.records import ArtifactRecord, RunRecord
from pipelines.lineage.source import Edge, Execution, Push, Source, Switch

Direction = Literal["up", "down"]
Kind = Literal["version", "run", "artifact", "file"]

COMPARED_ONLY = frozenset({"baseline_model", "previous_statistics"})
"""Inputs that a result was compared with, but not made from: shown, and not followed."""

_VERSION = re.compile(r"(?P<model>[^@/]+)@(?P<version>\d+|latest)")


@dataclass(frozen=True)
class Target:
    """What was asked about.

    Attributes:
        kind: what the name turned out to be.
        title: in words.
        artifacts: where queries start.
        run_id: of a run, else empty.
    """

    kind: Kind
    title: str
    artifacts: tuple[int, ...]
    run_id: str = ""


@dataclass(frozen=True)
class Lineage:
    """A part of the graph of executions and artifacts.

    Attributes:
        target: what was asked about.
        direction: `up` to what made it, `down` to what came of it.
        artifacts: by id.
        executions: by id.
        edges: each execution's reading and writing, in the order of their discovery.
        cut: whether `depth` ended it before the graph did.
    """

    target: Target
    direction: Direction
    artifacts: Mapping[int, ArtifactRecord]
    executions: Mapping[int, Execution]
    edges: Sequence[Edge]
    cut: bool


def resolve(source: Source, name: str) -> Target:
    """What a name stands for: `digits@3`, `digits@latest`, `artifact:7`, a run, or an input file's path.

    Raises:
        NotFoundError: nothing has that name; the nearest name is the remedy.
    """
    kind, _, number = name.partition(":")
    if kind == "artifact" and number:
        return _artifact(source, number)
    version = _VERSION.fullmatch(name)
    if version:
        push = find_push(source, version["model"], version["version"])
        return Target("version", push.name, (push.artifact,))
    if "/" not in name and (name == "latest" or source.run_ids(name, 1)):
        run = find_run(source, name)
        return Target("run", f"run {run.run_id}", (), run.run_id)
    return _file(source, name)


def _artifact(source: Source, number: str) -> Target:
    found = source.artifacts([int(number)]) if number.isdecimal() else {}
    if not found:
        raise NotFoundError(
            f"There is no artifact {number!r}",
            remedy="`headrace lineage RUN --output json` lists the ids of a run's artifacts.",
        )
    artifact = found[int(number)]
    return Target("artifact", f"artifact {artifact.id}", (artifact.id,))


def _file(source: Source, name: str) -> Target:
    path = name if "://" in name else str(Path(name).expanduser().absolute())
    # One run may have recorded a file, and another, which read very many, the file's folder.
    found = [*source.input_files(path), *source.input_files(path.rpartition("/")[0])]
    # Very many files are recorded by their folder; a neighbour's record says nothing of this file.
    artifacts = source.artifacts(found)
    matching = [
        number
        for number, artifact in artifacts.items()
        if artifact.uri == path
        or artifact.uri.startswith(path.rstrip("/") + "/")
        or (int(artifact.properties.get("files", 1)) > 1 and _was_read(source, number, path))
    ]
    if matching:
        return Target("file", path, tuple(matching))
    models = {push.name for push in source.pushes()}
    raise NotFoundError(
        f"Nothing is known of {name!r}",
        place="expected MODEL@VERSION, a run, artifact:ID, or the path of a file that a run has read",
        remedy=_suggest(name, [*models, *source.run_ids(limit=50)]),
    )


def run_of(source: Source, push: Push) -> RunRecord:
    """The run that pushed a version.

    Raises:
        NotFoundError: its record is gone.
    """
    run = source.run(models.run_id_of(source, push))
    if run:
        return run
    raise NotFoundError(f"The run that pushed {push.name} is not recorded", place=push.destination)


def _was_read(source: Source, folder: int, path: str) -> bool:
    """Whether a file was among those of a recorded folder, by the report of who read it.

    Where the report was removed, a file that lies in the folder is taken for one of them.
    """
    reader = {edge.execution for edge in source.consumers([folder])}
    written = source.outputs(sorted(reader)[:1])
    reports = source.artifacts(edge.artifact for edge in written if edge.key == "report")
    for report in reports.values():
        listed = Path(report.uri, record.FILES)
        if listed.exists():
            with open(listed, encoding="utf-8") as file:
                return any(json.loads(line)["path"] == path for line in file)
    return Path(path).is_file()


def _suggest(name: str, known: Iterable[str]) -> str:
    """The nearest name, or where to look: all names would fill the screen."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return (
        f"Did you mean {close[0]!r}?"
        if close
        else "`headrace runs` and `headrace models` list what there is."
    )


def find_push(source: Source, model: str, version: str) -> Push:
    """The record of a pushed version; `latest` is the highest.

    Raises:
        NotFoundError: no such model or version was pushed.
    """
    if version != "latest":
        push = source.push(model, int(version))
        if push:
            return push
    pushes = source.pushes(model)
    if pushes and version == "latest":
        return max(pushes, key=lambda push: push.version)
    if pushes:
        raise NotFoundError(
            f"Version {version} of {model!r} was never pushed",
            place=f"{len(pushes)} versions, {pushes[0].version} to {pushes[-1].version}",
            remedy="`headrace models` lists them.",
        )
    known = {push.model for push in source.pushes()}
    raise NotFoundError(
        f"There is no model {model!r}",
        remedy=nearest(model, known) or "No model was pushed in this workspace yet.",
    )


def find_run(source: Source, name: str) -> RunRecord:
    """A run by its id, a unique prefix of it, or `latest`.

    Raises:
        NotFoundError: no run or several have that name.
    """
    matching = source.run_ids("" if name == "latest" else name, 1 if name == "latest" else 5)
    wanted = name if name in matching else matching[0] if len(matching) == 1 else None
    run = source.run(wanted) if wanted else None
    if run:
        return run
    if matching:
        raise NotFoundError(
            f"Several runs begin with {name!r}", place=", ".join(matching), remedy="Type more of it."
        )
    known = source.run_ids(limit=50)
    if not known:
        raise NotFoundError(
            "There are no runs in this workspace yet", remedy="headrace run digits makes one."
        )
    raise NotFoundError(f"There is no run {name!r}", remedy=_suggest(name, known))


def follow(source: Source, target: Target, direction: Direction, depth: int | None = None) -> Lineage:
    """The graph that leads from a target, to its origins or to what came of it.

    Args:
        source: the store.
        target: where to start.
        direction: `up` or `down`.
        depth: at most so many executions in a row; all when not given.
    """
    walk = _Walk(source, direction)
    frontier = set(_starts(source, target, direction))
    target = Target(target.kind, target.title, tuple(sorted(frontier)), target.run_id)
    steps = 0
    while frontier and (depth is None or steps < depth):
        frontier = walk.step(frontier)
        steps += 1
    # The last step may have led to artifacts that nothing stands behind.
    cut = bool(frontier) and bool(walk.beyond(frontier))
    shown = {edge.artifact for edge in walk.edges} | set(target.artifacts)
    return Lineage(
        target, direction, source.artifacts(shown), source.executions(walk.executions), walk.edges, cut
    )


class _Walk:
    """Breadth first, a whole level at a time, so that a level costs two look-ups however wide it is."""

    def __init__(self, source: Source, direction: Direction) -> None:
        self._source = source
        self._up = direction == "up"
        self._followed: set[int] = set()
        self.executions: set[int] = set()
        self.edges: list[Edge] = []

    def beyond(self, artifacts: Collection[int]) -> Sequence[Edge]:
        """The edges to executions on the far side of artifacts."""
        return self._source.producers(artifacts) if self._up else self._source.consumers(artifacts)

    def step(self, frontier: Collection[int]) -> set[int]:
        """Takes in the executions beyond `frontier`; returns the artifacts to go on from."""
        self._followed.update(frontier)
        near = self.beyond(frontier)
        self.edges.extend(near)
        new = {edge.execution for edge in _leading_on(near)} - self.executions
        self.executions.update(edge.execution for edge in near)
        far = self._source.inputs(new) if self._up else self._source.outputs(new)
        self.edges.extend(far)
        return {edge.artifact for edge in _leading_on(far)} - self._followed


def _leading_on(edges: Iterable[Edge]) -> list[Edge]:
    return [edge for edge in edges if not (edge.reads and edge.key in COMPARED_ONLY)]


def _starts(source: Source, target: Target, direction: Direction) -> Iterable[int]:
    """A run stands for its last artifacts upwards, and for the first it made downwards."""
    if target.kind != "run":
        return target.artifacts
    executions = source.run_executions(target.run_id)
    written = source.outputs(executions)
    if direction == "up":
        used = {edge.artifact for edge in source.inputs(executions)}
        return {edge.artifact for edge in written} - used
    producers = {edge.artifact: edge.execution for edge in source.producers({e.artifact for e in written})}
    made = {artifact for artifact, execution in producers.items() if execution in set(executions)}
    inner = {edge.execution for edge in source.inputs(executions) if edge.artifact in made}
    return {artifact for artifact in made if producers[artifact] not in inner}


@dataclass(frozen=True)
class Service:
    """A version's time in service.

    Attributes:
        version: its number.
        since: seconds since the epoch.
        how: `pushed`, or `put in service` by a rollback.
        reason: the rollback's; may be empty.
    """

    version: int
    since: float
    how: str
    reason: str = ""


def services(pushes: Iterable[Push], switches: Iterable[Switch]) -> list[Service]:
    """Which version was in service from when on, oldest first.

    A server takes the highest version in its root; a rollback moves those
    above its target aside, and the next push is above all.

    Args:
        pushes: of one model.
        switches: of the same model.
    """
    changes = [Service(push.version, push.at, "pushed") for push in pushes]
    changes += [Service(switch.version, switch.at, "put in service", switch.reason) for switch in switches]
    found: list[Service] = []
    for change in sorted(changes, key=lambda change: change.since):
        # Of two pushes at once the lower may be recorded later.
        if not found or change.how != "pushed" or change.version > found[-1].version:
            found.append(change)
    return found


def serving_at(history: Sequence[Service], when: float) -> tuple[Service | None, Service | None]:
    """What was in service at a time, and what took its place (None where nothing).

    Args:
        history: what `services` gives.
        when: seconds since the epoch.
    """
    before = [service for service in history if service.since <= when]
    later = history[len(before) :]
    return (before[-1] if before else None), (later[0] if later else None)

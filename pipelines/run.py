"""Runs an experiment from its configuration to its summary.

outcome = run(experiment, workspace, options, progress)
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pipelines import errors, fingerprint
from pipelines.config import Experiment
from pipelines.lineage import record
from pipelines.lineage import store as lineage
from pipelines.lineage.database import Database, settle
from pipelines.lineage.sqlite import add_indexes
from pipelines.runners.events import FAILED, Event, EventLog
from pipelines.summary import Summary, summarize
from pipelines.workspace import Workspace, new_run_id

if TYPE_CHECKING:
    from pipelines.runners.node import RunFiles

RunnerName = Literal["local", "beam"]
RUNNERS: tuple[RunnerName, ...] = ("local", "beam")


@dataclass(frozen=True)
class Options:
    """How to run.

    Attributes:
        runner: which orchestrator.
        from_node: the first node to run; what is before it is taken from an earlier run.
        to_node: the last node to run.
        cache: whether earlier outputs of the same inputs, code and settings are used.
        beam_args: Beam options for every Beam component.
    """

    runner: RunnerName = "local"
    from_node: str | None = None
    to_node: str | None = None
    cache: bool = True
    beam_args: tuple[str, ...] = ()


class Progress(Protocol):
    """What a run tells while it goes on."""

    def loading(self, run_id: str) -> None: ...
    def planned(self, nodes: list[str]) -> None: ...
    def event(self, event: Event) -> None: ...
    def tick(self) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        run_id: its id.
        state: `complete`, `refused`.
        seconds: from command to end.
        summary: what came of it.
    """

    run_id: str
    state: str
    seconds: float
    summary: Summary


def run(experiment: Experiment, workspace: Workspace, options: Options, progress: Progress) -> Outcome:
    """Runs an experiment to its end.

    Raises:
        HeadraceError: a mistake of the user's, a node that failed, or an
            interruption; the workspace is whole, and running the same command
            again goes on where this run stopped.
    """
    began = time.time()
    run_id = new_run_id(experiment.name, datetime.now())
    folder = workspace.run_folder(run_id)
    folder.mkdir(parents=True)
    progress.loading(run_id)
    with _interruptible():
        database = workspace.database if workspace.private else settle(workspace.root, experiment.metadata)
        pipeline = _compile(experiment, workspace, options, run_id)
        _begin(database, run_id, experiment, options, began, _waits(pipeline))
        progress.planned(_planned(pipeline))
        state, error = _orchestrate(pipeline, options, folder, database, progress)
        summary = _end(database, run_id, state, error)
    if error is not None:
        raise error
    final = lineage.REFUSED if summary.refusal else lineage.COMPLETE
    return Outcome(run_id, final, time.time() - began, summary)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does."""

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _compile(experiment: Experiment, workspace: Workspace, options: Options, run_id: str) -> Any:
    """The IR with the run's id in it, and marked where only some nodes are to run."""
    from tfx.dsl.compiler import compiler, constants
    from tfx.orchestration.portable import runtime_parameter_utils

    from pipelines.create import create_pipeline, node_ids

    pipeline = create_pipeline(experiment, workspace, enable_cache=options.cache)
    known = node_ids(pipeline)
    for name in (options.from_node, options.to_node):
        if name is not None and name not in known:
            raise errors.NotFoundError(
                f"There is no node {name!r}", place=experiment.name, remedy=errors.nearest(name, known)
            )
    ir = compiler.Compiler().compile(pipeline)
    runtime_parameter_utils.substitute_runtime_parameter(
        ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id}
    )
    if options.from_node or options.to_node:
        _mark_partial(ir, experiment, workspace, options)
    return ir


def _mark_partial(ir: Any, experiment: Experiment, workspace: Workspace, options: Options) -> None:
    from tfx.orchestration.portable import partial_run_utils
    from tfx.proto.orchestration import pipeline_pb2

    settings = pipeline_pb2.SnapshotSettings()
    if options.from_node:
        base = _base_run(workspace, experiment, _upstream(ir, options.from_node))
        partial_run_utils.set_base_pipeline_run_strategy(settings, base)
    else:
        partial_run_utils.set_latest_pipeline_run_strategy(settings)
    try:
        partial_run_utils.mark_pipeline(
            ir,
            from_nodes=[options.from_node] if options.from_node else None,
            to_nodes=[options.to_node] if options.to_node else None,
            snapshot_settings=settings,
        )
    except ValueError as error:
        raise errors.ConfigError(
            f"These nodes cannot be run alone: {error}",
            place=f"--from {options.from_node} --to {options.to_node}",
        ) from error
    if not _planned(ir):
        raise errors.ConfigError(
            f"No node lies between {options.from_node} and {options.to_node}",
            place="--from, --to",
            remedy="--from names the earlier node.",
        )


def _upstream(ir: Any, node_id: str) -> set[str]:
    """The nodes before one, transitively."""
    before = {item.pipeline_node.node_info.id: set(item.pipeline_node.upstream_nodes) for item in ir.nodes}
    found: set[str] = set()
    waiting = set(before[node_id])
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= before[name] - found
    return found


def _base_run(workspace: Workspace, experiment: Experiment, needed: set[str]) -> str:
    """The latest run of the experiment in which all needed nodes have outputs."""
    with lineage.Store(workspace.database) as store:
        for earlier in store.runs():
            nodes = store.nodes(earlier.run_id) if earlier.experiment == experiment.name else []
            if needed <= {node.node for node in nodes if _has_outputs(node)}:
                return earlier.run_id
    raise errors.NotFoundError(
        "No earlier run has the outputs that --from starts from",
        place=f"{experiment.name}: {', '.join(sorted(needed))}",
        remedy="Run without --from first; finished nodes are cached.",
    )


def _waits(ir: Any) -> dict[str, list[str]]:
    """Node -> nodes that come before it, whether it reads from them or only waits for them."""
    nodes = [item.pipeline_node for item in ir.nodes]
    return {node.node_info.id: list(node.upstream_nodes) for node in nodes if node.upstream_nodes}


def _has_outputs(node: lineage.NodeRecord) -> bool:
    """Whether a node went well, and what it wrote has not been removed since."""
    written = [artifact for group in node.outputs.values() for artifact in group]
    return node.state in ("complete", "cached") and all(Path(item.uri).exists() for item in written)


def _planned(ir: Any) -> list[str]:
    return [
        item.pipeline_node.node_info.id
        for item in ir.nodes
        if not item.pipeline_node.execution_options.HasField("skip")
    ]


def _begin(
    database: Database,
    run_id: str,
    experiment: Experiment,
    options: Options,
    began: float,
    upstream: dict[str, list[str]],
) -> None:
    from pipelines.create import config_json

    details = {
        "config": config_json(experiment),
        "runner": options.runner,
        "upstream": upstream,
        "folder": str(Path.cwd()),
        "cache": options.cache,
        "packages": fingerprint.environment(),
        # Asked for before any node is forked, so that nodes need not ask again.
        "surroundings": record.surroundings(),
    }
    with lineage.Store(database) as store:
        store.begin_run(run_id, experiment.name, began, details)
    # ML Metadata's own look-ups of a node's run become as fast as ours by them.
    if database.is_file:
        add_indexes(database.path)


def _end(database: Database, run_id: str, state: str, error: errors.HeadraceError | None) -> Summary:
    """Records the end; executions that a dead process left running are marked as canceled."""
    with lineage.Store(database) as store:
        store.cancel_running(run_id)
        summary = summarize(store, run_id)
        if state == lineage.COMPLETE and summary.refusal:
            state = lineage.REFUSED
        details: dict[str, Any] = {"summary": summary.to_json()}
        if error is not None:
            details["error"] = {"headline": error.headline, "place": error.place, "remedy": error.remedy}
        store.end_run(run_id, state, time.time(), details)
    return summary


def _orchestrate(
    pipeline: Any, options: Options, folder: Path, database: Database, progress: Progress
) -> tuple[str, errors.HeadraceError | None]:
    """Runs the nodes; how the run ended, and the error to raise where it did not end well."""
    from pipelines.runners.node import RunFiles

    log = EventLog(folder)
    log.take_reserve()
    failures: list[Event] = []

    def tick() -> None:
        for event in log.new():
            progress.event(event)
            if event.state == FAILED:
                failures.append(event)
        progress.tick()

    try:
        ok = _runner(options, RunFiles(folder, database), tick)(pipeline)
    except KeyboardInterrupt:
        tick()
        return lineage.INTERRUPTED, errors.InterruptedRunError(
            "The run was interrupted",
            place=folder.name,
            remedy="Run the same command again: finished nodes are taken from the cache.",
        )
    finally:
        log.free_reserve()
    tick()
    if ok:
        return lineage.COMPLETE, None
    return lineage.FAILED, _failure(failures, folder)


def _runner(options: Options, files: RunFiles, tick: Callable[[], None]) -> Callable[[Any], bool]:
    if options.runner == "beam":
        from pipelines.runners.beam import BeamRunner

        return BeamRunner(files, tick, options.beam_args).run_with_ir
    from pipelines.runners.local import LocalRunner

    return LocalRunner(files, tick, options.beam_args).run_with_ir


def _failure(failures: list[Event], folder: Path) -> errors.HeadraceError:
    for event in failures:
        if event.error and event.user_error:
            return errors.InputError(**event.error)
    if failures and failures[0].error:
        return errors.NodeFailedError(**failures[0].error)
    return errors.NodeFailedError(
        "The run failed outside its nodes", place=str(folder), remedy="The logs there have the whole message."
    )

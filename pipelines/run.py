"""Runs an experiment from its configuration to its summary.

outcome = run(experiment, workspace, options, progress)
"""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from components.errors import WorkerLostError
from pipelines import (
    backups,
    code_watch,
    compiling,
    digests,
    engines,
    errors,
    fingerprint,
    leases,
    lost_pushes,
    plans,
    recovery,
    remote,
    user_code,
)
from pipelines.cards import card
from pipelines.compiling import RUNNERS as RUNNERS
from pipelines.compiling import Options as Options
from pipelines.config import Experiment, to_json
from pipelines.lineage import record
from pipelines.lineage import store as lineage
from pipelines.lineage.database import Database
from pipelines.lineage.source import model_of
from pipelines.lineage.sqlite import add_indexes
from pipelines.runners import cached, warm
from pipelines.runners.events import FAILED, RETRYING, Event, EventLog
from pipelines.runners.files import RunFiles
from pipelines.runners.policy import Policy
from pipelines.stages import Retry
from pipelines.summary import Summary, summarize
from pipelines.workspace import Workspace, new_run_id

_OF_DATA = {"DataError", "AnomalyError", "TrainingError"}
"""User errors of nodes that the data is to blame for; the others are of what surrounds a node."""

_REJECTED = "RejectedError"

TEMPLATE = "template.pb"
"""In a run's folder: the compiled pipeline that it carries out."""


class Progress(Protocol):
    """What a run tells while it goes on."""

    def begun(self, run_id: str) -> None: ...
    def loading(self) -> None: ...
    def waiting(self) -> None: ...
    def planned(self, nodes: list[str]) -> None: ...
    def event(self, event: Event) -> None: ...
    def tick(self) -> None: ...
    def ended(self, outcome: Outcome, error: errors.HeadraceError | None) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        run_id: its id.
        state: `complete` or `refused`; while it is told, `failed` or `interrupted` too.
        seconds: from command to end.
        summary: what came of it.
    """

    run_id: str
    state: str
    seconds: float
    summary: Summary


def run(
    experiment: Experiment,
    workspace: Workspace,
    options: Options,
    progress: Progress,
    accept: Callable[[Any], None] = lambda template: None,
) -> Outcome:
    """Runs an experiment to its end.

    Args:
        experiment: what.
        workspace: where.
        options: how.
        progress: is told of it.
        accept: gets the compiled pipeline before anything is run or recorded; raises where it is
            not what the caller wants.

    Raises:
        HeadraceError: a mistake of the user's, a node that failed, or an
            interruption; the workspace is whole, and running the same command
            again goes on where this run stopped.
    """
    began = time.time()
    run_id = new_run_id(experiment.name, datetime.now())
    database = workspace.settle(experiment.metadata)
    recovery.settle_dead(workspace)
    folder = workspace.run_folder(run_id)
    folder.mkdir(parents=True)
    with leases.taken(folder) as lease, interruptible():
        progress.begun(run_id)
        recorded = False
        try:
            key, template = template_of(experiment, workspace, options, progress.loading)
            accept(template)
            (folder / TEMPLATE).write_bytes(template.SerializeToString(deterministic=True))
            ir = compiling.for_run(template, run_id)
            _check_policies(ir, experiment, options)
            if options.from_node or options.to_node:
                compiling.mark_partial(ir, experiment, workspace, options)
            part = Part(ir, experiment, options, folder, database, lease)
            with plans.one_at_a_time(workspace, key, lambda: while_waiting(progress, lease)):
                _begin(database, run_id, experiment, options, began, key, ir)
                recorded = True
                return carry_out(part, progress, began)
        except BaseException as error:
            if not recorded:
                _ended_early(progress, run_id, time.time() - began, error)
            raise


def _ended_early(progress: Progress, run_id: str, seconds: float, error: BaseException) -> None:
    """Says the end of a run that was said to have begun, and of which nothing was recorded."""
    ours = error if isinstance(error, errors.HeadraceError) else None
    state = lineage.INTERRUPTED if isinstance(error, KeyboardInterrupt) else lineage.FAILED
    progress.ended(Outcome(run_id, state, seconds, Summary()), ours)


def while_waiting(progress: Progress, lease: leases.Lease) -> None:
    """To be called now and then while a run waits for another."""
    lease.beat()
    progress.waiting()


def template_of(
    experiment: Experiment, workspace: Workspace, options: Options, loading: Callable[[], None]
) -> tuple[str, Any]:
    """The compiled pipeline and its key: kept from an earlier run, else compiled, which imports TFX."""
    digests.remember_in(workspace.root)
    with remote.held():
        code_watch.begin(user_code.modules_of(experiment))
        key = plans.key_of(experiment, workspace, cache=options.cache)
        kept = plans.load(workspace, key)
        if kept is not None:
            return key, kept
        loading()
        warm.load()
        template = compiling.compile_template(experiment, workspace, cache=options.cache)
        if not code_watch.has_changed():
            return key, plans.save(workspace, key, template)
    # The key is that of other code than was compiled.
    return template_of(experiment, workspace, options, loading)


@dataclass(frozen=True)
class Part:
    """A run, or what is left of it.

    Attributes:
        ir: the compiled pipeline with the run's id, marked where only some nodes are to run.
        experiment: what it was compiled from.
        options: how to run.
        folder: the run's.
        database: of the workspace.
        lease: held by this process.
        finished: nodes that ran before.
    """

    ir: Any
    experiment: Experiment
    options: Options
    folder: Path
    database: Database
    lease: leases.Lease
    finished: Collection[str] = ()


def carry_out(part: Part, progress: Progress, began: float) -> Outcome:
    """Runs what is left of a run that was recorded as begun, and records its end.

    Raises:
        HeadraceError: a node failed, or the run was interrupted.
    """
    progress.planned(compiling.planned(part.ir))
    state, error = _orchestrate(part, progress)
    run_id = part.folder.name
    summary, state = _end(part, state, error)
    outcome = Outcome(run_id, state, time.time() - began, summary)
    progress.ended(outcome, error)
    if summary.executed and part.database.is_file:
        backups.keep(part.database.path, time.time())
    if error is not None:
        raise error
    if summary.pushed_now:
        _keep_card(Workspace.open(part.folder.parents[1]), summary)
    return outcome


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does."""

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _keep_card(workspace: Workspace, summary: Summary) -> None:
    """Writes the card of what was pushed; a run that pushed has done so, card or not."""
    try:
        card.keep(workspace, model_of(summary.pushed_to), summary.pushed_version)
    except errors.HeadraceError as error:
        logging.getLogger(__name__).warning("The model card was not written: %s", error)


def _waits(ir: Any) -> dict[str, list[str]]:
    """Node -> nodes that come before it, whether it reads from them or only waits for them."""
    nodes = [item.pipeline_node for item in ir.nodes]
    return {node.node_info.id: list(node.upstream_nodes) for node in nodes if node.upstream_nodes}


def _begin(
    database: Database,
    run_id: str,
    experiment: Experiment,
    options: Options,
    began: float,
    key: str,
    ir: Any,
) -> None:
    details = {
        "config": to_json(experiment),
        "compiled": key,
        "runner": options.runner,
        "upstream": _waits(ir),
        "folder": str(Path.cwd()),
        "cache": options.cache,
        "from_node": options.from_node,
        "to_node": options.to_node,
        "beam_args": list(options.beam_args),
        "packages": fingerprint.environment(),
        # Asked for before any node is forked, so that nodes need not ask again.
        "surroundings": record.surroundings(),
    }
    with lineage.Store(database) as store:
        store.begin_run(run_id, experiment.name, began, details)
    # ML Metadata's own look-ups of a node's run become as fast as ours by them.
    if database.is_file:
        add_indexes(database.path)


def _end(part: Part, state: str, error: errors.HeadraceError | None) -> tuple[Summary, str]:
    """Records the end, and says how it ended; executions that were left running are marked as canceled."""
    run_id = part.folder.name
    with lineage.Store(part.database) as store:
        store.cancel_running(run_id)
        if error is not None:
            lost_pushes.record(store, Workspace(part.folder.parents[1]), run_id)
        summary = summarize(store, run_id)
        if state == lineage.COMPLETE and summary.refusal:
            state = lineage.REFUSED
        details: dict[str, Any] = {"summary": summary.to_json()}
        if error is not None:
            details["error"] = {"headline": error.headline, "place": error.place, "remedy": error.remedy}
        store.end_run(run_id, state, time.time(), details)
    return summary, state


def _orchestrate(part: Part, progress: Progress) -> tuple[str, errors.HeadraceError | None]:
    """Runs the nodes; how the run ended, and the error to raise where it did not end well."""
    log = EventLog(part.folder, from_now_on=True)
    log.take_reserve()
    failures: dict[str, Event] = {}

    def tick() -> None:
        part.lease.beat()
        for event in log.new():
            progress.event(event)
            if event.state == FAILED:
                failures[event.node] = event
            elif event.state == RETRYING:
                failures.pop(event.node, None)
        progress.tick()

    try:
        ok = _run_nodes(part, tick, progress)
    except errors.EngineError as error:
        return lineage.FAILED, error
    except KeyboardInterrupt:
        tick()
        return lineage.INTERRUPTED, errors.InterruptedRunError(
            "The run was interrupted",
            place=part.folder.name,
            remedy=f"headrace run --resume {part.folder.name} goes on from here; or run the same command "
            "again: finished nodes are taken from the cache.",
        )
    finally:
        log.free_reserve()
    tick()
    if ok:
        return lineage.COMPLETE, None
    return lineage.FAILED, _failure(list(failures.values()), part.folder)


def _run_nodes(part: Part, tick: Callable[[], None], progress: Progress) -> bool:
    """Takes what it can from the cache, then runs the rest; True where no node failed."""
    files = RunFiles(part.folder, part.database)
    if part.options.runner == "beam":
        from pipelines.runners.beam import BeamRunner

        return BeamRunner(files, tick, _beam_args(part)).run_with_ir(part.ir)
    finished = set(part.finished)
    whole = not (part.options.from_node or part.options.to_node)
    if part.options.cache and whole:
        finished |= cached.take(part.ir, files, finished, tick)
        if finished >= set(compiling.planned(part.ir)):
            return True
    beam_args = _beam_args(part)
    progress.loading()
    warm.load()
    from pipelines.runners.local import LocalRunner

    runner = LocalRunner(
        files, tick, beam_args, policies=_policies(part.experiment, compiling.node_ids(part.ir))
    )
    return runner.run_with_ir(part.ir, finished=finished)


def _beam_args(part: Part) -> list[str]:
    """Options of the engine, which is looked at now that it is needed; then those that were given."""
    return [*engines.for_run(part.experiment, part.folder.parents[1]), *part.options.beam_args]


def _check_policies(ir: Any, experiment: Experiment, options: Options) -> None:
    known = compiling.node_ids(ir)
    for place in ("retry", "timeouts_s"):
        named = getattr(experiment, place)
        for name in named:
            if name not in known:
                raise errors.ConfigError(
                    f"There is no node {name!r}", place=place, remedy=errors.nearest(name, known)
                )
        if named and options.runner == "beam":
            raise errors.ConfigError(
                "The Beam runner has no tries and time limits for nodes",
                place=place,
                remedy="Use --runner local.",
            )


def _policies(experiment: Experiment, nodes: Collection[str]) -> dict[str, Policy]:
    # An engine loses workers now and then, and not every one starts their work elsewhere.
    usual = Retry(on=[WorkerLostError.__name__]) if experiment.beam.runner != "local" else None
    tries = {name: experiment.retry.get(name, usual) for name in nodes}
    return {
        name: Policy(timeout_s=experiment.timeouts_s.get(name), **(retry.model_dump() if retry else {}))
        for name, retry in tries.items()
    }


def _blamed(kinds: Collection[str]) -> type[errors.HeadraceError]:
    """The error for a user error of a node, by the names of its classes."""
    if _REJECTED in kinds:
        return errors.RejectedError
    return errors.SurroundingsError if _OF_DATA.isdisjoint(kinds) else errors.InputError


def _failure(failures: list[Event], folder: Path) -> errors.HeadraceError:
    for event in failures:
        if event.error and event.user_error:
            return _blamed(event.kinds)(**event.error)
    if failures and failures[0].error:
        return errors.NodeFailedError(**failures[0].error)
    return errors.NodeFailedError(
        "The run failed outside its nodes", place=str(folder), remedy="The logs there have the whole message."
    )

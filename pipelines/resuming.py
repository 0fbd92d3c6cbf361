"""Goes on with a run that was killed, interrupted or failed, as that same run.

    outcome = resume("latest", workspace, progress)

Finished nodes are not run again; an unfinished one begins anew under the
execution it had, except that a Trainer goes on from its last checkpoint. What
the run was started with must not have changed since, or what it makes would be
recorded under a wrong key; then a new run is the way, which takes the finished
nodes from the cache.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines import compiling, errors, leases, plans, recovery
from pipelines.config import Experiment, to_json
from pipelines.lineage import store as lineage
from pipelines.lineage.records import NodeRecord, RunRecord
from pipelines.lineage.store import Store
from pipelines.run import (
    TEMPLATE,
    Options,
    Outcome,
    Part,
    Progress,
    carry_out,
    interruptible,
    template_of,
    while_waiting,
)
from pipelines.runners import leftovers
from pipelines.runners.files import RunFiles
from pipelines.summary import RESOLVERS, summarize
from pipelines.workspace import Workspace

LATEST = "latest"
UNFINISHED = (lineage.INTERRUPTED, lineage.FAILED, lineage.RUNNING)


def resume(name: str, workspace: Workspace, progress: Progress) -> Outcome:
    """Goes on with a run; one that is finished is only summed up.

    Args:
        name: a run's id, a unique prefix of one, an experiment's name, or `latest`.

    Raises:
        NotFoundError: there is no such run.
        ConfigError: its code, data or settings have changed since.
        WorkspaceError: it is still going on.
        HeadraceError: as in `run`.
    """
    began = time.time()
    recovery.settle_dead(workspace)
    record = _find(name, workspace)
    if record.state not in UNFINISHED:
        with Store(workspace.database) as store:
            return Outcome(record.run_id, record.state, 0.0, summarize(store, record.run_id))
    folder = workspace.run_folder(record.run_id)
    with leases.taken(folder) as lease, interruptible():
        recovery.settle(workspace, record.run_id)
        progress.begun(record.run_id)
        template, key = _unchanged(record, workspace, progress)
        with plans.one_at_a_time(workspace, key, lambda: while_waiting(progress, lease)):
            return carry_out(_part(record, workspace, template, lease), progress, began)


def unfinished_like(experiment: Experiment, options: Options, workspace: Workspace) -> str | None:
    """The latest run of an experiment, where it is unfinished and began with the same settings."""
    recovery.settle_dead(workspace)
    with Store(workspace.database) as store:
        records = [run for run in store.runs() if run.experiment == experiment.name]
    for record in records[:1]:
        same = record.details.get("config") == to_json(experiment) and _options(record) == options
        if same and record.state in UNFINISHED and _template_path(workspace, record).exists():
            return record.run_id
    return None


def _find(name: str, workspace: Workspace) -> RunRecord:
    with Store(workspace.database) as store:
        runs = store.runs()
        if name == LATEST:
            wanted = list(_open(runs)) or runs
        else:
            wanted = [run for run in runs if run.experiment == name]
        # By its id where it is no experiment's name; an error names what there is.
        return wanted[0] if wanted else store.find_run(name)


def _open(runs: list[RunRecord]) -> Iterator[RunRecord]:
    """Unfinished runs that no later run of the same experiment has made pointless; newest first."""
    finished = set()
    for run in runs:
        if run.state not in UNFINISHED:
            finished.add(run.experiment)
        elif run.experiment not in finished:
            yield run


def _unchanged(record: RunRecord, workspace: Workspace, progress: Progress) -> tuple[Any, str]:
    """The compiled pipeline of a run, and its key.

    Raises:
        ConfigError: it would be compiled otherwise now.
    """
    template = _template(record, workspace)
    try:
        experiment = _experiment(record)
    except ValidationError as error:
        raise _changed(record.run_id, ["settings that are no longer known"]) from error
    key, now = template_of(experiment, workspace, _options(record), progress.loading)
    _check_unchanged(template, now, record.run_id)
    return template, key


def _experiment(record: RunRecord) -> Experiment:
    return Experiment.model_validate(json.loads(str(record.details["config"])))


def _part(record: RunRecord, workspace: Workspace, template: Any, lease: leases.Lease) -> Part:
    """What is left of a run, with the record set to going on."""
    experiment, options = _experiment(record), _options(record)
    folder = workspace.run_folder(record.run_id)
    ir = compiling.for_run(template, record.run_id)
    if options.from_node or options.to_node:
        compiling.mark_partial(ir, experiment, workspace, options)
    files = RunFiles(folder, workspace.database)
    with Store(workspace.database) as store:
        nodes = store.nodes(record.run_id)
        times = [*record.details.get("resumed", ()), time.time()]
        store.reopen_run(record.run_id, {"resumed": times, "error": None})
    finished = {node.node for node in nodes if node.state in leftovers.FINISHED}
    _complete_records([node for node in nodes if node.node in finished], files)
    leftovers.clear(ir, files, {node.node for node in nodes} - finished)
    return Part(ir, experiment, options, folder, workspace.database, lease, finished)


def _complete_records(nodes: list[NodeRecord], files: RunFiles) -> None:
    """Records what a node did that was published, and killed before it could say more."""
    untold = [node for node in nodes if "wall_s" not in node.properties and node.node not in RESOLVERS]
    if untold:
        from pipelines.runners import node as nodes_module

        for node in untold:
            nodes_module.record_facts(node, files, {"wall_s": 0.0})


def _options(record: RunRecord) -> Options:
    told = record.details
    return Options(
        runner=told.get("runner", "local"),
        from_node=told.get("from_node"),
        to_node=told.get("to_node"),
        cache=bool(told.get("cache", True)),
        beam_args=tuple(told.get("beam_args", ())),
    )


def _template_path(workspace: Workspace, record: RunRecord) -> Path:
    return workspace.run_folder(record.run_id) / TEMPLATE


def _template(record: RunRecord, workspace: Workspace) -> Any:
    from tfx.proto.orchestration import pipeline_pb2

    path = _template_path(workspace, record)
    with contextlib.suppress(OSError):
        return pipeline_pb2.Pipeline.FromString(path.read_bytes())
    raise errors.NotFoundError(
        "What this run was to do is no longer there",
        place=str(path),
        remedy=f"Start a new run: headrace run {record.experiment}; finished nodes are cached.",
    )


def is_unchanged(record: RunRecord, workspace: Workspace) -> bool:
    """Whether an unfinished run could go on: its code, data and settings are what they were."""
    if record.state not in UNFINISHED or not _template_path(workspace, record).exists():
        return False
    try:
        experiment = _experiment(record)
    except ValidationError:
        return False  # settings that are no longer known
    _, now = template_of(experiment, workspace, _options(record), lambda: None)
    try:
        _check_unchanged(_template(record, workspace), now, record.run_id)
    except errors.ConfigError:
        return False
    return True


def is_same(run_id: str, workspace: Workspace, template: Any) -> bool:
    """Whether a compiled pipeline is the one of a run, but for marks of partial runs."""
    from tfx.proto.orchestration import pipeline_pb2

    try:
        before = pipeline_pb2.Pipeline.FromString((workspace.run_folder(run_id) / TEMPLATE).read_bytes())
    except OSError:
        return False
    return plans.settings_of(before) == plans.settings_of(template)


def _check_unchanged(before: Any, now: Any, run_id: str) -> None:
    old, new = plans.settings_of(before), plans.settings_of(now)
    changed = [name for name in new if old.get(name) != new[name]] + [name for name in old if name not in new]
    if changed:
        raise _changed(run_id, changed)


def _changed(run_id: str, what: Sequence[str]) -> errors.ConfigError:
    return errors.ConfigError(
        "The code, data or settings of this run have changed since it began",
        place=f"{run_id}: {', '.join(what)}",
        remedy="Start a new run: nodes that have not changed are taken from the cache.",
    )

"""From an experiment to TFX's compiled pipeline, whole or marked for a part of its nodes.

template = compile_template(experiment, workspace, cache=True)      # imports TFX
ir = for_run(template, run_id)
mark_partial(ir, experiment, workspace, options)                    # for --from and --to
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines import errors
from pipelines.config import Experiment
from pipelines.lineage import store as lineage
from pipelines.lineage.records import NodeRecord
from pipelines.located import located
from pipelines.workspace import Workspace

RunnerName = Literal["local", "beam"]
RUNNERS: tuple[RunnerName, ...] = ("local", "beam")


RUN_ID = "<run id>"
"""Stands in a template where a run's id belongs."""


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


def compile_template(experiment: Experiment, workspace: Workspace, *, cache: bool) -> Any:
    """TFX's compiled pipeline, with RUN_ID where a run's id belongs. Imports TFX."""
    from tfx.dsl.compiler import compiler, constants
    from tfx.orchestration.portable import runtime_parameter_utils

    from pipelines.create import create_pipeline

    here = located(experiment, workspace.fetched)
    pipeline = create_pipeline(here, workspace, enable_cache=cache)
    ir = compiler.Compiler().compile(pipeline)
    runtime_parameter_utils.substitute_runtime_parameter(
        ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: RUN_ID}
    )
    return ir


def for_run(template: Any, run_id: str) -> Any:
    """A copy of a template with a run's id in it; needs TFX's messages only."""
    ir = type(template)()
    ir.CopyFrom(template)
    _replace(ir, run_id)
    return ir


def _replace(message: Any, run_id: str) -> None:
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING and not field.is_repeated:
            if value == RUN_ID:
                setattr(message, field.name, run_id)
        elif field.type == field.TYPE_MESSAGE:
            for child in _messages(field, value):
                _replace(child, run_id)


def _messages(field: Any, value: Any) -> list[Any]:
    """The messages in a field: one, a list's, or a map's values."""
    if not field.is_repeated:
        return [value]
    if field.message_type.GetOptions().map_entry:
        holds_messages = field.message_type.fields_by_name["value"].message_type is not None
        return list(value.values()) if holds_messages else []
    return list(value)


def check_nodes(ir: Any, options: Options, place: str) -> None:
    """That the nodes of a partial run exist.

    Raises:
        NotFoundError: one does not.
    """
    known = node_ids(ir)
    for name in (options.from_node, options.to_node):
        if name is not None and name not in known:
            raise errors.NotFoundError(
                f"There is no node {name!r}", place=place, remedy=errors.nearest(name, known)
            )


def node_ids(ir: Any) -> list[str]:
    """The ids of a compiled pipeline's nodes, in topological order."""
    return [item.pipeline_node.node_info.id for item in ir.nodes]


def mark_partial(ir: Any, experiment: Experiment, workspace: Workspace, options: Options) -> None:
    """Marks the nodes that are not to run, by TFX's own marks.

    Raises:
        NotFoundError: there is no such node, or no earlier run to start from.
        ConfigError: these nodes cannot be run alone.
    """
    check_nodes(ir, options, experiment.name)
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
    if not planned(ir):
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


def _has_outputs(node: NodeRecord) -> bool:
    """Whether a node went well, and what it wrote has not been removed since."""
    written = [artifact for group in node.outputs.values() for artifact in group]
    return node.state in ("complete", "cached") and all(Path(item.uri).exists() for item in written)


def planned(ir: Any) -> list[str]:
    return [
        item.pipeline_node.node_info.id
        for item in ir.nodes
        if not item.pipeline_node.execution_options.HasField("skip")
    ]

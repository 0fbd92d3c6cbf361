"""Takes what it can from the cache, without TensorFlow, Beam or any executor's imports.

    hits = look(ir, files)              # node -> CACHED, COMPLETE (a resolver), MISS or WAITS

TFX's launcher does the work up to the point where an executor would run, so a
node is a hit here exactly where it is one in a whole run. A node that misses is
left registered; whoever runs it afterwards in the same run takes it up. To be
called in a process of its own: it may keep heavy packages out for good.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.runners import events, tfx_patches

MISS, WAITS = "miss", "waits"
"""A node that must run; and one that depends on such a node."""

FINISHED = (events.CACHED, events.COMPLETE, events.SKIPPED)


def look(ir: Any, files: Any, done: frozenset[str] = frozenset()) -> dict[str, str]:
    """Looks all nodes up, in topological order.

    Args:
        ir: compiled pipeline with a run's id.
        files: a `RunFiles`.
        done: nodes that are finished already.
    """
    tfx_patches.keep_heavy_out()
    tfx_patches.verify_cached_outputs()
    found: dict[str, str] = dict.fromkeys(done, events.COMPLETE)
    for item in ir.nodes:
        node = item.pipeline_node
        name = node.node_info.id
        if name in found:
            continue
        if any(found.get(upstream) in (MISS, WAITS) for upstream in node.upstream_nodes):
            found[name] = WAITS
        else:
            found[name] = _look_up(ir, node, files)
    return {name: state for name, state in found.items() if name not in done}


def _look_up(ir: Any, node: Any, files: Any) -> str:
    from pipelines.lineage import record
    from pipelines.lineage.store import Store

    began, cpu = time.time(), time.process_time()
    execution_id, state = _launch(ir, node, files)
    if state in FINISHED:
        log = events.EventLog(files.folder)
        if execution_id:
            costs = {"wall_s": time.time() - began, "cpu_s": time.process_time() - cpu}
            with Store(files.database) as store:
                store.annotate_execution(execution_id, {**record.surroundings(), **costs})
        log.append(events.Event(node.node_info.id, events.RUNNING, began))
        log.append(events.Event(node.node_info.id, state, time.time(), time.time() - began))
    return state


def _launch(ir: Any, node: Any, files: Any) -> tuple[int, str]:
    """The execution's id and how the node stands."""
    from tfx.orchestration.local import runner_utils
    from tfx.orchestration.portable import launcher
    from tfx.proto.orchestration import executable_spec_pb2 as specs

    from pipelines.runners.metadata import LockedMetadata

    class Looking(launcher.Launcher):
        """TFX's launcher up to where the executor would run."""

        def look(self) -> tuple[int, str]:
            if self._system_node_handler:
                info = self.launch()
                return (info.execution_id, events.COMPLETE) if info else (0, events.SKIPPED)
            prepared = self._prepare_execution()
            number = prepared.execution_info.execution_id
            if prepared.is_execution_needed:
                return number, MISS
            # Skipped, or its inputs could not be resolved: the whole run finds out which.
            return (number, _state_of(number, files)) if number else (0, MISS)

    deployment = runner_utils.extract_local_deployment_config(ir)
    kinds = (specs.PythonClassExecutableSpec, specs.BeamExecutableSpec)
    return Looking(
        pipeline_node=node,
        mlmd_connection=LockedMetadata(files.database),
        pipeline_info=ir.pipeline_info,
        pipeline_runtime_spec=ir.runtime_spec,
        executor_spec=runner_utils.extract_executor_spec(deployment, node.node_info.id),
        custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, node.node_info.id),
        custom_executor_operators=dict.fromkeys(kinds, _NoOperator),
    ).look()


def _state_of(execution_id: int, files: Any) -> str:
    from pipelines.lineage.store import Store

    with Store(files.database) as store:
        state = store.execution_state(execution_id)
    return state if state in FINISHED else MISS


class _NoOperator:
    """Stands for an executor, whose class TFX would import."""

    def __init__(self, executor_spec: Any, platform_config: Any = None) -> None:
        del executor_spec, platform_config


@dataclass(frozen=True)
class Answer:
    """What a look in another process found; read and written as JSON."""

    path: Path

    def write(self, found: dict[str, str]) -> None:
        self.path.write_text(json.dumps(found))

    def read(self) -> dict[str, str]:
        """Empty where the look did not come to its end."""
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return {str(name): str(state) for name, state in found.items()}


def finished(found: dict[str, str]) -> Iterator[str]:
    """The nodes that need not run any more."""
    return (name for name, state in found.items() if state in FINISHED)

"""Runs one node of a compiled pipeline, whatever runner asked for it.

    ok = run_node(NodeTask(ir, "Trainer", RunFiles(folder, workspace.database)))

The node's states go to the run's event log; what it cost goes to ML Metadata.
"""

from __future__ import annotations

import contextlib
import errno
import time
import traceback
from dataclasses import dataclass
from typing import Any

from tfx.orchestration.local import runner_utils
from tfx.orchestration.portable import launcher

from components import beam_worker
from pipelines import code_watch, errors
from pipelines.lineage import record
from pipelines.lineage.records import ArtifactRecord, NodeRecord
from pipelines.lineage.store import INPUT_FILE, Store
from pipelines.runners import beam_options, events, tfx_patches
from pipelines.runners.costs import Meter
from pipelines.runners.files import RunFiles as RunFiles
from pipelines.runners.files import log_path as log_path
from pipelines.runners.metadata import LockedMetadata


@dataclass(frozen=True)
class NodeTask:
    """A node to run: `pipeline` is the compiled IR with the run's id substituted."""

    pipeline: Any
    node_id: str
    files: RunFiles
    beam_args: tuple[str, ...] = ()


def run_node(task: NodeTask) -> bool:
    """Launches the node; True where it completed, was cached, or was skipped."""
    log = events.EventLog(task.files.folder)
    began = time.time()
    log.append(events.Event(task.node_id, events.RUNNING, began))
    meter = Meter()
    watch = code_watch.Watch(task.pipeline, task.node_id)
    try:
        watch.check_start()
        beam_worker.prepare()
        tfx_patches.verify_cached_outputs()
        info = _launch(task)
        watch.check_end()
    except Exception as error:
        with contextlib.suppress(OSError):  # a full disk
            traceback.print_exc()
        log.append(_failure(task, began, error))
        _try_to_record_failure(task, meter.costs(), error)
        return False
    state = _record(task, info, meter.costs())
    if state == events.FAILED:
        log.append(_failure(task, began, None))
        return False
    log.append(events.Event(task.node_id, state, time.time(), time.time() - began))
    return True


def _launch(task: NodeTask) -> Any:
    deployment = runner_utils.extract_local_deployment_config(task.pipeline)
    node = find_node(task.pipeline, task.node_id)
    return launcher.Launcher(
        pipeline_node=node,
        mlmd_connection=LockedMetadata(task.files.database),
        pipeline_info=task.pipeline.pipeline_info,
        pipeline_runtime_spec=task.pipeline.runtime_spec,
        executor_spec=runner_utils.extract_executor_spec(deployment, task.node_id),
        custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, task.node_id),
        custom_executor_operators=beam_options.operators(task.beam_args),
    ).launch()


def find_node(pipeline: Any, node_id: str) -> Any:
    """The node of that id in a compiled pipeline."""
    return next(node.pipeline_node for node in pipeline.nodes if node.pipeline_node.node_info.id == node_id)


def _record(task: NodeTask, info: Any, costs: dict[str, float]) -> str:
    """Adds to the node's execution what it cost and did, and returns how it ended.

    The launcher returns without an exception where inputs could not be
    resolved; the execution's state tells.
    """
    if info is None or not info.execution_id:
        return events.SKIPPED
    with Store(task.files.database) as store:
        state = store.execution_state(info.execution_id)
        if state not in (events.COMPLETE, events.CACHED):
            return events.FAILED
        ended = store.node(info.execution_id)
    record_facts(ended, task.files, costs)
    return state


def record_facts(ended: NodeRecord, files: RunFiles, costs: dict[str, float]) -> None:
    """Adds to a finished node's execution what it cost and did, and links the files it read."""
    # Reports are read while the store is closed: other nodes wait for it.
    facts = {**record.surroundings(), **costs, **record.facts(ended, costs["wall_s"])}
    facts.update(record.written(ended))
    known = {artifact.uri for artifact in ended.inputs.get("files", ())}
    inputs = [_as_artifact(file) for file in record.input_files(ended) if file.path not in known]
    with Store(files.database) as store:
        if inputs:
            store.link_inputs(ended.execution_id, INPUT_FILE, "files", inputs)
        # Last, since it is by these that a resumed run knows the record to be whole.
        store.annotate_execution(ended.execution_id, facts)


def _as_artifact(file: record.InputFile) -> ArtifactRecord:
    properties: dict[str, str | int | float] = {
        "sha256": file.sha256,
        "bytes": file.bytes,
        "files": file.files,
        "records": file.records,
    }
    return ArtifactRecord(0, INPUT_FILE, file.path, properties)


def _try_to_record_failure(task: NodeTask, costs: dict[str, float], error: Exception) -> None:
    """The event log has the failure already; a store that cannot be written must not hide it."""
    try:
        _record_failure(task, costs, error)
    except Exception:
        with contextlib.suppress(OSError):  # a full disk
            traceback.print_exc()


def _record_failure(task: NodeTask, costs: dict[str, float], error: Exception) -> None:
    """Adds to a failed node's execution, where it got as far as having one."""
    with Store(task.files.database) as store:
        failed = [node for node in store.nodes(task.files.folder.name) if node.node == task.node_id]
        for node in failed[-1:]:
            if isinstance(error, errors.CodeChangedError):
                store.disown(node.execution_id)  # TFX has published it
            facts = {**record.surroundings(), **costs, "error": f"{type(error).__name__}: {error}"[:2000]}
            store.annotate_execution(node.execution_id, facts)


def _failure(task: NodeTask, began: float, error: Exception | None) -> events.Event:
    by_user = (errors.user_fields(error) if error else None) or _disk_full(task, error)
    return events.Event(
        task.node_id,
        events.FAILED,
        time.time(),
        time.time() - began,
        by_user or _unknown(task, error),
        user_error=by_user is not None,
        kinds=_kinds(error),
    )


def _kinds(error: BaseException | None) -> list[str]:
    """The names of an error's classes and of those that led to it, for `retry`."""
    names: list[str] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        names.extend(kind.__name__ for kind in type(error).__mro__ if kind.__name__ not in (*names, "object"))
        error = error.__cause__ or error.__context__
    return names


def _disk_full(task: NodeTask, error: BaseException | None) -> dict[str, str] | None:
    text = str(error).lower()
    said = "no space left on device" in text or "disk is full" in text  # TensorFlow's words, SQLite's
    if not said and getattr(error, "errno", None) != errno.ENOSPC:
        return None
    return {
        "headline": f"The disk is full; node {task.node_id} could not write",
        "place": str(task.files.database.path.parent),
        "remedy": "Free space and run the same command again; finished nodes are not run again.",
    }


def _unknown(task: NodeTask, error: BaseException | None) -> dict[str, str]:
    text = str(error).strip().splitlines() if error else []
    reason = (
        f"{type(error).__name__}: {text[0] if text else ''}" if error else "its inputs could not be resolved"
    )
    return {
        "headline": f"Node {task.node_id} failed: {reason[:300]}",
        "place": str(log_path(task.files.folder, task.node_id)),
        "remedy": "The log has the whole message. Running the same command again goes on from here.",
    }

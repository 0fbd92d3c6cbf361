"""The local runner: one warm parent, one forked child per ready node.

TFX's LocalDagRunner runs nodes one after another in one process. Here nodes
that do not wait for each other run at the same time, a finished node's memory
is given back, and a crash in native code is that node's failure alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfx.orchestration.portable import partial_run_utils, tfx_runner

from pipelines.runners import events, node, processes
from pipelines.runners.metadata import LockedMetadata

_POLL_S = 0.1
Tick = Callable[[], None]


class LocalRunner(tfx_runner.IrBasedRunner):
    """Runs a compiled pipeline in forked children of this process."""

    def __init__(
        self, files: node.RunFiles, tick: Tick, beam_args: Sequence[str] = (), parallel: int | None = None
    ) -> None:
        """Makes the runner.

        Args:
            files: of this run.
            tick: called ten times a second while nodes run.
            beam_args: Beam options for every Beam component.
            parallel: nodes at a time; the number of cores when not given.
        """
        super().__init__()
        self._files = files
        self._tick = tick
        self._beam_args = tuple(beam_args)
        self._parallel = parallel or os.cpu_count() or 1
        self._log = events.EventLog(files.folder)

    def run_with_ir(self, pipeline: Any, run_options: Any = None) -> bool:
        """Runs the nodes that are not marked as skipped; True where none failed.

        Args:
            pipeline: compiled IR, with the run id substituted and, for a
                partial run, marked by TFX's partial_run_utils.
            run_options: not used; marks are made before.
        """
        waiting = _to_run(pipeline)
        done = {name for name in _all_nodes(pipeline) if name not in waiting}
        running: dict[int, str] = {}
        failed = False
        self._snapshot(pipeline)
        try:
            while waiting or running:
                if not failed:
                    self._start_ready(pipeline, waiting, done, running)
                if not running:
                    break
                ended = self._wait(running)
                for pid, ok in ended:
                    name = running.pop(pid)
                    done.add(name)
                    failed = failed or not ok
        except BaseException:
            processes.terminate(running)
            raise
        return not failed

    def _start_ready(
        self, pipeline: Any, waiting: list[str], done: set[str], running: dict[int, str]
    ) -> None:
        for name in list(waiting):
            if len(running) >= self._parallel:
                return
            if set(node.find_node(pipeline, name).upstream_nodes) <= done:
                waiting.remove(name)
                running[self._fork(pipeline, name)] = name

    def _fork(self, pipeline: Any, name: str) -> int:
        task = node.NodeTask(pipeline, name, self._files, self._beam_args)
        return processes.fork(lambda: node.run_node(task), node.log_path(self._files.folder, name))

    def _wait(self, running: dict[int, str]) -> list[tuple[int, bool]]:
        """Waits until at least one child has ended."""
        while True:
            ended = []
            for pid, name in running.items():
                reaped, status = os.waitpid(pid, os.WNOHANG)
                if reaped:
                    ended.append((pid, self._ended_well(name, status)))
            self._tick()
            if ended:
                return ended
            time.sleep(_POLL_S)

    def _ended_well(self, name: str, status: int) -> bool:
        """Whether a child went well; one that crashed gets the event it could not write."""
        if status == 0:
            return True
        reader = events.EventLog(self._files.folder)
        if not any(event.node == name and event.state == events.FAILED for event in reader.new()):
            self._log.append(_crash(name, status, self._files.folder))
        return False

    def _snapshot(self, pipeline: Any) -> None:
        """For a partial run: lets earlier outputs count as this run's. In a child, since it opens MLMD."""
        marked = [
            item for item in pipeline.nodes if item.pipeline_node.execution_options.run.perform_snapshot
        ]
        if marked:
            pid = processes.fork(
                lambda: _take_snapshot(pipeline, self._files), self._files.folder / "run.log"
            )
            _, status = os.waitpid(pid, 0)
            if status:
                raise RuntimeError("the outputs of the earlier run could not be taken over")


def _take_snapshot(pipeline: Any, files: node.RunFiles) -> bool:
    with LockedMetadata(files.database) as handle:
        partial_run_utils.snapshot(handle, pipeline)
    return True


def _all_nodes(pipeline: Any) -> list[str]:
    return [item.pipeline_node.node_info.id for item in pipeline.nodes]


def _to_run(pipeline: Any) -> list[str]:
    return [
        item.pipeline_node.node_info.id
        for item in pipeline.nodes
        if not item.pipeline_node.execution_options.HasField("skip")
    ]


def _crash(name: str, status: int, folder: Path) -> events.Event:
    event = events.Event(name, events.FAILED, time.time())
    fields = {
        "headline": f"Node {name} crashed: {processes.describe_exit(status)}",
        "place": str(node.log_path(folder, name)),
        "remedy": "The log's end shows where. Running the same command again goes on from here.",
    }
    return replace(event, error=fields)

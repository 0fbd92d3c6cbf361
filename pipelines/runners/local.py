"""The local runner: one warm parent, one forked child per ready node.

TFX's LocalDagRunner runs nodes one after another in one process. Here nodes
that do not wait for each other run at the same time, a finished node's memory
is given back, and a crash in native code is that node's failure alone.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfx.orchestration.portable import partial_run_utils, tfx_runner

from pipelines.runners import events, leftovers, node, processes
from pipelines.runners.metadata import LockedMetadata
from pipelines.runners.policy import CRASH, TIMEOUT, Policy

_POLL_S = 0.1
Tick = Callable[[], None]


@dataclass(frozen=True)
class _Try:
    """A node's process: which try it is, when it must have ended, and a reader of what it says."""

    pid: int
    name: str
    number: int
    deadline: float
    reader: events.EventLog


class LocalRunner(tfx_runner.IrBasedRunner):
    """Runs a compiled pipeline in forked children of this process."""

    def __init__(
        self,
        files: node.RunFiles,
        tick: Tick,
        beam_args: Sequence[str] = (),
        parallel: int | None = None,
        policies: Mapping[str, Policy] | None = None,
    ) -> None:
        """Makes the runner.

        Args:
            files: of this run.
            tick: called ten times a second while nodes run.
            beam_args: Beam options for every Beam component.
            parallel: nodes at a time; the number of cores when not given.
            policies: node -> when it is tried again and how long it may take.
        """
        super().__init__()
        self._files = files
        self._tick = tick
        self._beam_args = tuple(beam_args)
        self._parallel = parallel or os.cpu_count() or 1
        self._policies = policies or {}
        self._log = events.EventLog(files.folder)

    def run_with_ir(
        self, pipeline: Any, run_options: Any = None, finished: Collection[str] = frozenset()
    ) -> bool:
        """Runs the nodes that are not marked as skipped; True where none failed.

        Args:
            pipeline: compiled IR, with the run id substituted and, for a
                partial run, marked by TFX's partial_run_utils.
            run_options: not used; marks are made before.
            finished: nodes that this run has run already.
        """
        waiting = [name for name in _to_run(pipeline) if name not in finished]
        done = {name for name in _all_nodes(pipeline) if name not in waiting}
        running: dict[int, _Try] = {}
        failed = False
        self._snapshot(pipeline)
        try:
            while waiting or running:
                if not failed:
                    self._start_ready(pipeline, waiting, done, running)
                if not running:
                    break
                for pid, failure in self._wait(running):
                    tried = running.pop(pid)
                    if failure is None:
                        done.add(tried.name)
                    elif not self._try_again(pipeline, tried, failure, running):
                        failed = True
        except BaseException:
            processes.terminate(running)
            raise
        return not failed

    def _start_ready(
        self, pipeline: Any, waiting: list[str], done: set[str], running: dict[int, _Try]
    ) -> None:
        for name in list(waiting):
            if len(running) >= self._parallel:
                return
            if set(node.find_node(pipeline, name).upstream_nodes) <= done:
                waiting.remove(name)
                tried = self._fork(pipeline, name, number=1, delay_s=0.0)
                running[tried.pid] = tried

    def _fork(self, pipeline: Any, name: str, number: int, delay_s: float) -> _Try:
        task = node.NodeTask(pipeline, name, self._files, self._beam_args)

        def work() -> bool:
            if number > 1:
                time.sleep(delay_s)
                leftovers.clear(pipeline, self._files, [name])
            return node.run_node(task)

        reader = events.EventLog(self._files.folder, from_now_on=True)
        pid = processes.fork(work, node.log_path(self._files.folder, name))
        limit = self._policies.get(name, Policy()).timeout_s
        deadline = time.monotonic() + delay_s + limit if limit is not None else math.inf
        return _Try(pid, name, number, deadline, reader)

    def _try_again(self, pipeline: Any, tried: _Try, failure: events.Event, running: dict[int, _Try]) -> bool:
        delay_s = self._policies.get(tried.name, Policy()).delay(failure, tried.number)
        if delay_s is None:
            return False
        self._log.append(events.Event(tried.name, events.RETRYING, time.time(), delay_s, failure.error))
        again = self._fork(pipeline, tried.name, tried.number + 1, delay_s)
        running[again.pid] = again
        return True

    def _wait(self, running: dict[int, _Try]) -> list[tuple[int, events.Event | None]]:
        """Waits until at least one child has ended; its failure, or None where it went well."""
        while True:
            ended = []
            for pid, tried in running.items():
                reaped, status = os.waitpid(pid, os.WNOHANG)
                late = not reaped and time.monotonic() > tried.deadline
                if late:
                    processes.terminate([pid])
                if reaped or late:
                    ended.append((pid, self._failure(tried, status, late=late)))
            self._tick()
            if ended:
                return ended
            time.sleep(_POLL_S)

    def _failure(self, tried: _Try, status: int, *, late: bool) -> events.Event | None:
        """How a child failed; one that was ended or crashed gets the event it could not write."""
        if status == 0 and not late:
            return None
        own = [item for item in tried.reader.new() if item.node == tried.name and item.state == events.FAILED]
        if own:
            return own[-1]
        if late:
            limit = self._policies[tried.name].timeout_s or 0.0
            headline, kind = f"Node {tried.name} took longer than {limit:g} s, and was ended", TIMEOUT
        else:
            headline = f"Node {tried.name} crashed: {processes.describe_exit(status)}"
            kind = CRASH
        event = _unexpected(tried.name, headline, kind, self._files.folder)
        self._log.append(event)
        return event

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


def _unexpected(name: str, headline: str, kind: str, folder: Path) -> events.Event:
    error = {
        "headline": headline,
        "place": str(node.log_path(folder, name)),
        "remedy": "The log's end shows where. Running the same command again goes on from here.",
    }
    return events.Event(name, events.FAILED, time.time(), error=error, kinds=(kind,))

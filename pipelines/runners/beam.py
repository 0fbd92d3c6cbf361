"""The Beam runner: TFX's BeamDagRunner, with our events and costs for each node.

Beam orchestrates the nodes in one process, so a crash in native code ends the
run; `local` is the default for that reason. Results are the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from tfx.orchestration.beam import beam_dag_runner
from tfx.orchestration.portable import partial_run_utils

from pipelines.runners import node, processes
from pipelines.runners.local import Tick
from pipelines.runners.metadata import LockedMetadata
from pipelines.runners.node import RunFiles

_POLL_S = 0.1


class _Node(beam_dag_runner.PipelineNodeAsDoFn):
    """A node as a DoFn; TFX makes it, so where the run's files lie is set on a subclass."""

    files: RunFiles
    beam_args: tuple[str, ...]

    def _run_node(self) -> None:
        if self._pipeline_node.execution_options.run.perform_snapshot:
            with LockedMetadata(self.files.database) as handle:
                partial_run_utils.snapshot(handle, self._pipeline)
        task = node.NodeTask(self._pipeline, self._node_id, self.files, self.beam_args)
        if not node.run_node(task):
            raise RuntimeError(f"node {self._node_id} failed; the event log says why")


class BeamRunner:
    """Runs a compiled pipeline by TFX's BeamDagRunner, in one forked child."""

    def __init__(self, files: RunFiles, tick: Tick, beam_args: Sequence[str] = ()) -> None:
        self._beam_args = tuple(beam_args)
        self._files = files
        self._tick = tick

    def run_with_ir(self, pipeline: Any) -> bool:
        """Runs the pipeline; True where no node failed."""
        pid = processes.fork(lambda: self._orchestrate(pipeline), self._files.folder / "beam.log")
        try:
            while True:
                reaped, status = os.waitpid(pid, os.WNOHANG)
                self._tick()
                if reaped:
                    return status == 0
                time.sleep(_POLL_S)
        except BaseException:
            processes.terminate([pid])
            raise

    def _orchestrate(self, pipeline: Any) -> bool:
        bound = type("_BoundNode", (_Node,), {"files": self._files, "beam_args": self._beam_args})
        runner_class = type("_Runner", (beam_dag_runner.BeamDagRunner,), {"_PIPELINE_NODE_DO_FN_CLS": bound})
        runner_class().run_with_ir(pipeline)
        return True

"""How executors are run: Beam options given when a node starts, outputs sealed when it ends.

TFX takes them when the pipeline is compiled, where they become part of the
cache key (more workers would re-run every data node), and then builds an
sdist of itself for each component. The launcher's executor operator is the
place that needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfx.orchestration.portable import beam_executor_operator, python_executor_operator
from tfx.proto.orchestration import executable_spec_pb2

from pipelines.runners import payloads
from pipelines.runners.beam_pipelines import DEFAULTS, pipeline_maker


def operators(arguments: Sequence[str]) -> dict[Any, Any]:
    """What `Launcher(custom_executor_operators=...)` takes: ours for all executors."""
    make = pipeline_maker([*DEFAULTS, *arguments])

    class Operator(beam_executor_operator.BeamExecutorOperator):
        """TFX's operator with our pipeline."""

        def run_executor(self, execution_info: Any, make_beam_pipeline_fn: Any = None) -> Any:
            return super().run_executor(execution_info, make_beam_pipeline_fn or make)

    return {
        executable_spec_pb2.BeamExecutableSpec: payloads.sealing(Operator),
        executable_spec_pb2.PythonClassExecutableSpec: payloads.sealing(
            python_executor_operator.PythonExecutorOperator
        ),
    }

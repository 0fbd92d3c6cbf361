"""Beam options for every Beam component, given when a node starts.

TFX takes them when the pipeline is compiled, where they become part of the
cache key (more workers would re-run every data node), and then builds an
sdist of itself for each component. The launcher's executor operator is the
place that needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfx.orchestration.portable import beam_executor_operator
from tfx.proto.orchestration import executable_spec_pb2

WORKER_PLUGIN = "components.beam_worker"
"""Imported by workers in processes of their own, before any step is unpickled."""

DEFAULTS = (
    # Beam's default first tries to fetch another runner from the network.
    "--runner=FnApiRunner",
    f"--beam_plugins={WORKER_PLUGIN}",
)


def operators(arguments: Sequence[str]) -> dict[Any, Any]:
    """What `Launcher(custom_executor_operators=...)` takes: ours for Beam executors."""
    make = _pipeline_maker([*DEFAULTS, *arguments])

    class Operator(beam_executor_operator.BeamExecutorOperator):
        """TFX's operator with our pipeline."""

        def run_executor(self, execution_info: Any, make_beam_pipeline_fn: Any = None) -> Any:
            return super().run_executor(execution_info, make_beam_pipeline_fn or make)

    return {executable_spec_pb2.BeamExecutableSpec: Operator}


def _pipeline_maker(arguments: Sequence[str]) -> Callable[[], Any]:
    def make() -> Any:
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        # Later options win, so a user's --runner replaces ours.
        return beam.Pipeline(options=PipelineOptions(list(arguments)))

    return make

"""Beam options for every Beam component, given when a node starts.

TFX takes them when the pipeline is compiled, where they become part of the
cache key (more workers would re-run every data node), and then builds an
sdist of itself for each component. The launcher's executor operator is the
place that needs neither.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tfx.orchestration.portable import beam_executor_operator
from tfx.proto.orchestration import executable_spec_pb2

from components import beam_worker

WORKER_COMMAND = f"{shlex.quote(sys.executable)} -m {beam_worker.__name__}"
"""What a runner that starts workers by a command is given."""

DEFAULTS = (
    # Beam's default first tries to fetch another runner from the network.
    "--runner=FnApiRunner",
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
        options = PipelineOptions(list(arguments))
        return beam.Pipeline(runner=_own_runner(options), options=options)

    return make


def _own_runner(options: Any) -> Any:
    """For several processes on this machine: Beam's runner with our worker; else None."""
    from apache_beam.options.pipeline_options import DirectOptions, StandardOptions
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.transforms.environments import SubprocessSDKEnvironment

    direct = options.view_as(DirectOptions)
    local = options.view_as(StandardOptions).runner in ("FnApiRunner", "DirectRunner")
    if not local or direct.direct_running_mode != "multi_processing":
        return None
    # The runner would otherwise put its own worker's command in place of ours.
    direct.direct_running_mode = "in_memory"
    return FnApiRunner(default_environment=SubprocessSDKEnvironment.from_command_string(WORKER_COMMAND))

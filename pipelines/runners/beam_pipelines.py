"""Beam pipelines from a user's options, without importing TFX.

with pipeline_maker([*DEFAULTS, "--direct_num_workers=2"])() as pipeline: ...
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

from components import beam_worker

WORKER_COMMAND = f"{shlex.quote(sys.executable)} -m {beam_worker.__name__}"
"""What a runner that starts workers by a command is given."""

DEFAULTS = (
    # Beam's default first tries to fetch another runner from the network.
    "--runner=FnApiRunner",
)


def pipeline_maker(arguments: Sequence[str]) -> Callable[[], Any]:
    """A function that makes a pipeline with these options; of several --runner the last counts."""

    def make() -> Any:
        from apache_beam.options.pipeline_options import PipelineOptions

        from pipelines.runners.beam_job import Job

        # Later options win, so a user's --runner replaces ours.
        options = PipelineOptions(list(arguments))
        return Job(runner=_own_runner(options), options=options)

    return make


def _own_runner(options: Any) -> Any:
    """For several processes on this machine: Beam's runner with our workers; else None."""
    from apache_beam.options.pipeline_options import DirectOptions, PortableOptions, StandardOptions
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from apache_beam.transforms.environments import ExternalEnvironment, SubprocessSDKEnvironment

    direct = options.view_as(DirectOptions)
    local = options.view_as(StandardOptions).runner in ("FnApiRunner", "DirectRunner")
    portable = options.view_as(PortableOptions)
    if local and portable.environment_type == "EXTERNAL":
        return FnApiRunner(default_environment=ExternalEnvironment.from_options(portable))
    if not local or direct.direct_running_mode != "multi_processing":
        return None
    # The runner would otherwise put its own worker's command in place of ours.
    direct.direct_running_mode = "in_memory"
    return FnApiRunner(default_environment=SubprocessSDKEnvironment.from_command_string(WORKER_COMMAND))

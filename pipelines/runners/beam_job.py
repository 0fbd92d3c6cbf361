"""A Beam pipeline that says in our words why its engine failed, and writes as many files as were asked for.

Imports Beam.
"""

from __future__ import annotations

import argparse
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from components import beam_boot
from components.errors import EngineError, WorkerLostError
from pipelines.engines.options import SHARDS

LOST = (
    "SDK worker disconnected",  # Prism
    "didn't get control connection",  # Prism, of one that died before it said a word
    "is no longer reachable",  # Flink, of a task manager; it has tried again itself by then
    "Heartbeat of TaskManager",
)
"""In the text of a job that failed because a worker or its host died."""


class EngineOptions(PipelineOptions):
    """Our own pipeline options, which travel with a job to its workers."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(f"--{SHARDS}", type=int, default=0, help="Files per split; 0 leaves it to Beam.")
        parser.add_argument(f"--{beam_boot.OPTION}", action="append", help="A file that workers must see.")


class Job(beam.Pipeline):
    """See `beam_pipelines.pipeline_maker`."""

    def apply(self, transform: Any, *args: Any, **kwargs: Any) -> Any:
        """Beam's, with the number of files set where a step leaves it open."""
        if isinstance(transform, beam.io.WriteToTFRecord):
            sink = transform._sink
            sink.num_shards = sink.num_shards or getattr(self._options.view_as(EngineOptions), SHARDS)
        return super().apply(transform, *args, **kwargs)

    def __exit__(self, *args: Any) -> None:
        """Runs the job to its end.

        Raises:
            EngineError: a worker cannot do it.
            WorkerLostError: a worker died; trying again may do.
        """
        try:
            super().__exit__(*args)
        except Exception as error:
            known = said(error)
            if known is None:
                raise
            raise known from error


def said(error: Exception) -> Exception | None:
    """The error in our words, or None where it is not one of those that we know."""
    text = str(error)
    fields = beam_boot.told(text)
    if fields is not None:
        return EngineError(**fields)
    if any(sign in text for sign in LOST):
        return WorkerLostError(text)
    return None

"""Our Beam pipeline: as many files as were asked for, and an engine's failures in our words."""

from __future__ import annotations

from pathlib import Path

import pytest

from components import beam_boot
from components.errors import EngineError, WorkerLostError
from pipelines.runners import beam_job
from pipelines.runners.beam_pipelines import DEFAULTS, pipeline_maker
from pipelines.runners.node import _kinds


@pytest.mark.parametrize(("given", "own", "files"), [(0, 0, 1), (3, 0, 3), (3, 2, 2)])
def test_files_per_split(tmp_path: Path, given: int, own: int, files: int) -> None:
    """A step that asks for a number of files itself gets that."""
    import apache_beam as beam

    with pipeline_maker([*DEFAULTS, f"--headrace_shards={given}"])() as pipeline:
        rows = pipeline | beam.Create([b"%d" % number for number in range(50)])
        _ = rows | "Write" >> beam.io.WriteToTFRecord(str(tmp_path / "rows"), num_shards=own)
    assert len(list(tmp_path.iterdir())) == files


def test_what_a_worker_says_of_its_host_is_a_users_error() -> None:
    inside = str(beam_boot.WorkerError("A worker is wrong", place="host a", remedy="Mend it."))
    found = beam_job.said(RuntimeError(f'job-1 failed: bundle failed:Traceback "{inside}"'))
    assert isinstance(found, EngineError)
    assert (found.headline, found.place, found.remedy) == ("A worker is wrong", "host a", "Mend it.")


@pytest.mark.parametrize(
    "text",
    [
        "Pipeline job-011 failed in state FAILED: bundle inst019 stage-038 failed:SDK worker disconnected: "
        "worker[job-011[job]_ref_Environment_default_environment_1], 6 active instructions",
        "prism worker[job-007[job]_ref_Environment_default_environment_1] didn't get control connection to "
        "localhost:51645 after 1m0s",
        "java.lang.Exception: TaskManager with id localhost:40683-8249ce is no longer reachable.",
    ],
)
def test_a_lost_worker_is_told_from_other_failures(text: str) -> None:
    found = beam_job.said(RuntimeError(text))
    assert isinstance(found, WorkerLostError)
    assert "WorkerLostError" in _kinds(found)


def test_other_failures_stay_what_they_are() -> None:
    assert beam_job.said(ValueError("bad")) is None
    import apache_beam as beam

    def fail(element: int) -> None:
        raise KeyError(f"no {element}")

    with pytest.raises(KeyError, match="no 1") as caught, pipeline_maker(DEFAULTS)() as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(fail)
    assert caught.value.__cause__ is not caught.value
    assert "KeyError" in _kinds(caught.value)

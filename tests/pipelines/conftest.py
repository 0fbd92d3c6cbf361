"""A store of recorded runs, made once through ML Metadata's own API; inputs as an experiment finds them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.recorded_runs import Writer
from pipelines import inputs
from pipelines.config import Experiment
from pipelines.lineage.database import Database
from pipelines.lineage.sqlite import SqliteSource
from pipelines.workspace import Workspace


@dataclass(frozen=True)
class Recorded:
    """The file, and the ids of the runs in it, oldest first."""

    path: Path
    runs: list[str]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> Recorded:
    path = tmp_path_factory.mktemp("recorded") / "metadata.db"
    return Recorded(path, Writer(Database(path), seed=3).write(40))


@pytest.fixture
def workspace(recorded, tmp_path) -> Path:
    """A workspace with that record."""
    shutil.copy(recorded.path, tmp_path / "metadata.db")
    return tmp_path


@pytest.fixture
def source(recorded) -> Iterator[SqliteSource]:
    with SqliteSource(recorded.path) as opened:
        yield opened


@pytest.fixture
def inputs_workspace(tmp_path) -> Workspace:
    """An empty workspace beside a test's data."""
    return Workspace.open(tmp_path / "w", create=True)


@pytest.fixture
def resolve(inputs_workspace) -> Callable[..., inputs.Resolved]:
    """Finds the files of an experiment whose `data:` is given."""

    def go(**data: object) -> inputs.Resolved:
        experiment = Experiment.model_validate({"name": "e", "data": data})
        return inputs.resolve(experiment, inputs_workspace)

    return go

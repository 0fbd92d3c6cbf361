"""A store of recorded runs, made once through ML Metadata's own API."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.recorded_runs import Writer
from pipelines.lineage.database import Database
from pipelines.lineage.sqlite import SqliteSource


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

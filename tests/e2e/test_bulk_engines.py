"""Bulk inference on an engine, or over several workers, writes the same bytes as in one process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from pipelines.lineage.store import Store
from pipelines.workspace import Workspace
from tests import engines
from tests.servables import write_lengths
from tests.waiting import wait_until

pytestmark = pytest.mark.e2e

FILES = 5
Answers = dict[str, bytes]


@pytest.fixture(scope="module")
def place(tmp_path_factory, make_example, write_tfrecord) -> Path:
    """A folder with a workspace `w` that serves `lengths`, and files of rows in `in`; one row is bad."""
    folder = tmp_path_factory.mktemp("bulk")
    workspace = Workspace.open(folder / "w", create=True)
    with Store(workspace.database):
        pass
    write_lengths(workspace.serving / "lengths" / "1")
    for number in range(FILES):
        rows = [make_example(image=b"x" * (row % 11)) for row in range(100 + number)]
        if number == 3:
            rows[7] = make_example(other=1)
        write_tfrecord(folder / "in" / f"{number}.tfrecord", rows)
    return folder


Answer = Callable[..., Answers]


@pytest.fixture(scope="module")
def answer(headrace, place: Path) -> Answer:
    """Runs the command with settings of `beam:`; returns the files that it wrote, by name."""

    def go(name: str, settings: Mapping[str, object] = {}, **more: Callable[[int], None]) -> Answers:
        # By relative paths: workers have other working directories.
        done = headrace(
            *("bulk", "lengths", "in", name, "--workspace", "w", "--on-bad", "quarantine"),
            *(f"--set=beam.{key}={value}" for key, value in settings.items()),
            cwd=place,
            **more,
        )
        assert done.code == 0, done.err
        assert not [path.name for path in place.iterdir() if path.name.startswith(".")]
        return {path.relative_to(place / name).as_posix(): path.read_bytes() for path in _all(place / name)}

    return go


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def local(answer: Answer) -> Answers:
    found = answer("local")
    parts = [name for name in found if name.startswith("part-")]
    assert sorted(found) == sorted([*parts, "bad-000003.jsonl", "manifest.json"])
    assert [found[name].count(b"\n") for name in parts] == [100, 101, 102, 102, 104]
    return found


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Iterator[engines.Pool]:
    with engines.pool(tmp_path_factory.mktemp("pool")) as found:
        yield found


def test_two_workers_of_a_pool(local: Answers, answer: Answer, pool: engines.Pool) -> None:
    before = len(pool.workers())
    assert answer("two", {"parallelism": 2, "pool": pool.address}) == local
    assert len(pool.workers()) == before + 2


def test_a_job_service_with_workers_of_a_pool(
    local: Answers, answer: Answer, pool: engines.Pool, tmp_path: Path
) -> None:
    before = len(pool.workers())
    with engines.job_service(tmp_path) as endpoint:
        given = {"runner": "portable", "job_endpoint": endpoint, "pool": pool.address}
        assert answer("service", given) == local
    assert len(pool.workers()) == before + 1


@pytest.fixture(scope="module")
def prism(tmp_path_factory) -> Iterator[engines.Engine]:
    with engines.prism(tmp_path_factory.mktemp("prism")) as found:
        yield found


@pytest.mark.cluster
@pytest.mark.slow
def test_prism(local: Answers, answer: Answer, prism: engines.Engine) -> None:
    assert answer("prism", prism.settings) == local


@pytest.mark.cluster
@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing(
    local: Answers, answer: Answer, prism: engines.Engine
) -> None:
    before = len(prism.pool.workers())

    def kill(pid: int) -> None:
        wait_until(lambda: len(prism.pool.workers()) > before, seconds=300)
        os.kill(prism.victim(), signal.SIGKILL)

    assert answer("killed", prism.settings, meanwhile=kill) == local
    assert len(prism.pool.workers()) > before + 1

"""The metadata store: runs by name, and what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipelines.errors import NotFoundError, WorkspaceError
from pipelines.lineage.store import Store


@pytest.fixture
def store(tmp_path) -> Iterator[Store]:
    with Store(tmp_path / "metadata.db") as opened:
        yield opened


def test_a_new_store_has_no_runs(store) -> None:
    assert store.runs() == []
    with pytest.raises(NotFoundError, match="no runs in this workspace"):
        store.find_run("latest")


def test_runs_are_listed_newest_first_with_what_they_were_told(store) -> None:
    store.begin_run("digits-1-aaaa", "digits", 10.0, {"config": "{}"})
    store.begin_run("digits-2-bbbb", "digits", 20.0, {"config": "{}"})
    store.end_run("digits-1-aaaa", "complete", 15.0, {"summary": {"accuracy": 0.9}})
    newest, oldest = store.runs()
    assert (newest.run_id, newest.state, newest.ended) == ("digits-2-bbbb", "running", None)
    assert (oldest.state, oldest.started, oldest.ended) == ("complete", 10.0, 15.0)
    assert oldest.details == {"config": "{}", "summary": {"accuracy": 0.9}}
    assert store.nodes("digits-1-aaaa") == []


def test_runs_are_found_by_prefix_and_latest(store) -> None:
    for number, run_id in enumerate(("digits-1-aaaa", "digits-2-bbbb", "taxi-3-cccc")):
        store.begin_run(run_id, run_id.split("-")[0], float(number), {})
    assert store.find_run("latest").run_id == "taxi-3-cccc"
    assert store.find_run("digits-2").run_id == "digits-2-bbbb"
    with pytest.raises(NotFoundError, match="2 runs begin with 'digits'"):
        store.find_run("digits")
    with pytest.raises(NotFoundError, match="Did you mean 'taxi-3-cccc'"):
        store.find_run("taxi-3-cccd")


def test_a_file_that_is_no_database(tmp_path) -> None:
    path = tmp_path / "metadata.db"
    path.write_text("hello" * 1000)
    for _ in range(2):  # the lock is given back
        with pytest.raises(WorkspaceError, match="cannot be opened"), Store(path):
            pass


def test_eight_processes_write_at_once(tmp_path) -> None:
    import subprocess
    import sys

    code = (
        "import sys, pathlib\n"
        "from pipelines.lineage.store import Store\n"
        "for number in range(5):\n"
        "    run = f'r-{sys.argv[2]}-{number}'\n"
        "    with Store(pathlib.Path(sys.argv[1])) as store:\n"
        "        store.begin_run(run, 'r', float(number), {})\n"
        "    with Store(pathlib.Path(sys.argv[1])) as store:\n"
        "        store.end_run(run, 'complete', number + 1.0, {})\n"
    )
    path = tmp_path / "metadata.db"
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path), str(number)], stderr=subprocess.PIPE)
        for number in range(8)
    ]
    outputs = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * 8, outputs
    with Store(path) as store:
        assert len(store.runs()) == 40

"""A record that is read through ML Metadata's API and written to a file has nothing changed in it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from bench.recorded_runs import Writer
from pipelines.lineage import copying
from pipelines.lineage.database import Database, connected
from pipelines.lineage.store import Store

PLAIN = ("Artifact", "Execution", "Context", "TypeProperty")
ASKED = {
    "types": "SELECT id, name, version, type_kind FROM Type",
    "associations": "SELECT context_id, execution_id FROM Association",
    "attributions": "SELECT context_id, artifact_id FROM Attribution",
    "events": "SELECT artifact_id, execution_id, type, milliseconds_since_epoch FROM Event",
    "paths": "SELECT artifact_id, execution_id, is_index_step, step_index, step_key"
    " FROM EventPath JOIN Event ON event_id = id",
    **{name: f"SELECT * FROM {name}" for name in PLAIN},
}
VALUES = "SELECT *, NULL FROM {0}Property"


def rows(path: Path, statement: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as file:
        return sorted(file.execute(statement).fetchall(), key=repr)


def rounded(found: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """ML Metadata writes a number with fifteen digits."""
    exact = [tuple(f"{item:.14g}" if isinstance(item, float) else item for item in row) for row in found]
    return sorted(exact, key=repr)


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("copied")
    source, target = Database(folder / "metadata.db"), Database(folder / "copy.db")
    Writer(source, seed=3).write(12)  # more executions than are asked for at once
    with Store(source) as record:
        record.begin_run("m-1-aaaa", "m", 1.0, {"note": "it's a \\ ✓\n"})
    with connected(source) as store:
        copying._write(copying._read(store), target)
    return source.path, target.path


@pytest.mark.parametrize("what", ASKED)
def test_nothing_is_missing_or_changed(copied, what: str) -> None:
    source, target = copied
    assert rows(source, ASKED[what]) == rows(target, ASKED[what])
    if what != "TypeProperty":  # these runs' types have none
        assert rows(target, ASKED[what])


@pytest.mark.parametrize("table", ["Artifact", "Execution", "Context"])
def test_properties_are_kept(copied, table: str) -> None:
    source, target = copied
    found = rounded(rows(source, VALUES.format(table)))
    assert found == rounded(rows(target, VALUES.format(table)))
    assert table == "Artifact" or found


def test_what_is_recorded_next_gets_a_number_of_its_own(copied) -> None:
    source, target = copied
    (last,) = rows(source, "SELECT max(id) FROM Execution")
    with Store(Database(target)) as record:
        assert record.begin_operation("HeadracePrune", {"at": 4.0}, {}) == int(str(last[0])) + 1
        assert record.find_run("latest").details == {"note": "it's a \\ ✓\n"}


def test_a_record_that_is_not_there_is_copied_as_nothing(tmp_path) -> None:
    copying.copy_to_file(Database(tmp_path / "metadata.db"), tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()

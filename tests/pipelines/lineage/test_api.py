"""Look-ups through ML Metadata's API say what those by SQL say: on the file, and on database servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pipelines.lineage import query
from pipelines.lineage.api import ApiSource
from pipelines.lineage.database import Database
from pipelines.lineage.sqlite import SqliteSource
from pipelines.lineage.store import Store


@pytest.fixture(scope="module")
def asked(recorded) -> Iterator[tuple[SqliteSource, ApiSource]]:
    with SqliteSource(recorded.path) as file, ApiSource(Database(recorded.path)) as api:
        yield file, api


def test_edges(asked, recorded) -> None:
    file, api = asked
    executions = [number for run in recorded.runs[:12] for number in file.run_executions(run)]
    assert executions == [number for run in recorded.runs[:12] for number in api.run_executions(run)]
    for look_up in ("inputs", "outputs"):
        assert set(getattr(file, look_up)(executions)) == set(getattr(api, look_up)(executions))
    artifacts = {edge.artifact for edge in file.outputs(executions)}
    assert set(file.consumers(artifacts)) == set(api.consumers(artifacts))
    assert set(file.producers(artifacts)) == set(api.producers(artifacts))


def test_records(asked, recorded) -> None:
    file, api = asked
    executions = file.run_executions(recorded.runs[7])
    assert file.executions(executions) == api.executions(executions)
    artifacts = [edge.artifact for edge in file.inputs(executions)]
    assert file.artifacts(artifacts) == api.artifacts(artifacts)
    assert api.executions([]) == api.artifacts([]) == {}


def test_pushes_and_runs(asked, recorded) -> None:
    file, api = asked
    assert file.pushes() == api.pushes()
    assert file.pushes("digits") == api.pushes("digits")
    assert api.pushes("igits") == []
    push = file.pushes("digits")[-1]
    assert api.push("digits", push.version) == push
    assert api.push("digits", 999) is None
    near = [source.pushes_around("digits", push.at) for source in asked]
    assert [query.serving_at(query.services(found, []), push.at) for found in near] == [
        query.serving_at(query.services(file.pushes("digits"), []), push.at)
    ] * 2
    assert file.run_ids("ph", 3) == api.run_ids("ph", 3)
    assert file.run_ids(limit=2) == api.run_ids(limit=2)
    assert file.run(recorded.runs[3]) == api.run(recorded.runs[3])
    assert api.run("digits") is None
    for question in (("", "", 5), ("its-", "complete", 3, 2), ("digits", "failed", 5), ("%", "", 5)):
        assert file.find_runs(*question) == api.find_runs(*question)
    assert [run.run_id for run in file.find_runs("ph", "complete", 2)] == list(file.run_ids("ph", 2))


def test_input_files(asked) -> None:
    file, api = asked
    for path in ("/data", "/data/digits/1", "/data/digits/1/part-0.csv", "/data/digi", "/data/it's_100%"):
        assert file.input_files(path) == api.input_files(path)


def test_whole_lineages(asked) -> None:
    up, down = (
        [query.follow(source, query.resolve(source, name), direction) for source in asked]
        for name, direction in (("digits@latest", "up"), ("/data/wine/1", "down"))
    )
    assert up[0] == up[1]
    # Levels are read in another order.
    first, second = (replace(lineage, edges=sorted(lineage.edges, key=repr)) for lineage in down)
    assert (first.edges, first.executions, first.artifacts) == (
        second.edges,
        second.executions,
        second.artifacts,
    )


def test_rollbacks(tmp_path) -> None:
    database = Database(tmp_path / "metadata.db")
    with Store(database) as store:
        for version, at in ((2, 20.0), (1, 10.0)):
            details = {"model": "m", "from_version": 3, "to_version": version, "reason": "slow", "at": at}
            store.end_operation(store.begin_operation("HeadraceRollback", details, {}), ok=True)
    with SqliteSource(database.path) as file, ApiSource(database) as api:
        assert file.switches("m") == api.switches("m") != []
        assert api.switches("other") == []


def test_an_empty_record(tmp_path) -> None:
    with ApiSource(Database(tmp_path / "metadata.db")) as api:
        assert api.run_ids() == api.pushes() == api.switches("m") == api.input_files("/d") == []

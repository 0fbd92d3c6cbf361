"""Look-ups by SQL say what ML Metadata's own API says."""

from __future__ import annotations

import errno
import shutil
import sqlite3

import pytest
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines.errors import WorkspaceError
from pipelines.lineage import query
from pipelines.lineage.source import Edge
from pipelines.lineage.sqlite import SqliteSource
from pipelines.lineage.store import Store

WRITES = (pb.Event.OUTPUT, pb.Event.DECLARED_OUTPUT, pb.Event.INTERNAL_OUTPUT)


@pytest.fixture
def mlmd(recorded):
    config = pb.ConnectionConfig()
    config.sqlite.filename_uri = str(recorded.path)
    config.sqlite.connection_mode = pb.SqliteMetadataSourceConfig.READONLY
    return metadata_store.MetadataStore(config)


@pytest.fixture
def executions(mlmd):
    return {execution.id: execution for execution in mlmd.get_executions()}


@pytest.fixture
def events(mlmd, executions):
    return mlmd.get_events_by_execution_ids(list(executions))


def edge(event) -> Edge:
    reads = event.type not in WRITES
    return Edge(event.artifact_id, event.execution_id, event.path.steps[0].key, reads)


def test_edges_of_executions(source, executions, events) -> None:
    assert set(source.inputs(executions)) == {edge(event) for event in events if event.type == pb.Event.INPUT}
    assert set(source.outputs(executions)) == {edge(event) for event in events if event.type in WRITES}


def test_the_producer_is_who_did_the_work(source, executions, events) -> None:
    """Not one of the executions that took the artifact from the cache."""
    written = {event.artifact_id for event in events if event.type in WRITES}
    producers = source.producers(written)
    assert sorted(found.artifact for found in producers) == sorted(written)
    assert {executions[found.execution].last_known_state for found in producers} == {pb.Execution.COMPLETE}


def test_consumers_leave_out_the_cached(source, executions, events) -> None:
    expected = {
        edge(event)
        for event in events
        if event.type == pb.Event.INPUT
        and executions[event.execution_id].last_known_state != pb.Execution.CACHED
    }
    artifacts = {event.artifact_id for event in events}
    assert set(source.consumers(artifacts)) == expected
    assert len(expected) < sum(event.type == pb.Event.INPUT for event in events)


def test_executions_know_node_run_state_and_properties(source, recorded) -> None:
    with Store(recorded.path) as store:
        expected = store.nodes(recorded.runs[7])
    found = source.executions(source.run_executions(recorded.runs[7]))
    assert [(item.id, item.node, item.state) for item in found.values()] == [
        (node.execution_id, node.node, node.state) for node in expected
    ]
    assert {item.run_id for item in found.values()} == {recorded.runs[7]}
    assert [item.properties for item in found.values()] == [node.properties for node in expected]


def test_artifacts_with_their_properties(source, mlmd) -> None:
    for expected in mlmd.get_artifacts():
        found = source.artifacts([expected.id])[expected.id]
        assert (found.type, found.uri) == (expected.type, expected.uri)
        assert set(found.properties) == set(expected.properties) | set(expected.custom_properties)


def test_pushes_by_model(source, mlmd) -> None:
    pushed = [
        artifact.custom_properties["pushed_destination"].string_value
        for artifact in mlmd.get_artifacts_by_type("PushedModel")
        if artifact.custom_properties["pushed"].int_value
    ]
    assert sorted(push.destination for push in source.pushes()) == sorted(pushed)
    digits = source.pushes("digits")
    assert digits and {push.model for push in digits} == {"digits"}
    assert source.push("digits", 1) == digits[0]
    assert source.push("digits", 10_000) is None
    assert source.push("igits", 1) is None  # the end of a name is no name


def test_pushes_around_a_time(source) -> None:
    """Enough to say what was in service: the same as from all pushes."""
    everything = source.pushes()
    for model in {push.model for push in everything}:
        mine = source.pushes(model)
        for push in mine:
            for at in (push.at - 0.0005, push.at, push.at + 0.0005):
                near = source.pushes_around(model, at)
                assert list(near) == [other for other in mine if other in near]
                expected = query.serving_at(query.services(mine, []), at)
                assert query.serving_at(query.services(near, []), at) == expected
    assert source.pushes_around("igits", 1e12) == []


def test_runs_by_prefix_newest_first(source, recorded) -> None:
    assert source.run_ids(limit=3) == recorded.runs[:-4:-1]
    assert set(source.run_ids("photos-")) == {run for run in recorded.runs if run.startswith("photos-")}
    run = source.run(recorded.runs[0])
    assert run and (run.experiment, run.state) == ("digits", "complete")
    assert source.run("digits") is None


def test_input_files_at_a_path_and_below_a_folder(source) -> None:
    assert len(source.input_files("/data/digits/1/part-0.csv")) == 1
    assert len(source.input_files("/data/digits/1")) == len(source.input_files("/data/digits/1/")) == 4
    assert source.input_files("/data/digi") == []


def test_each_look_up_is_answered_by_an_index(source, recorded, monkeypatch) -> None:
    plans = []

    def explain(statement, *parameters):
        plans.extend(source._connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall())
        return []

    monkeypatch.setattr(source, "_rows", explain)
    for look_up in (source.producers, source.consumers, source.inputs, source.outputs):
        look_up([1])
    source.executions([1])
    source.artifacts([1])
    source.input_files("/data")
    source.push("digits", 1)
    source.switches("digits")
    source.pushes_around("digits", 1.0)
    source.run_executions("r")
    source.run_ids("r")
    scans = [row[3] for row in plans if row[3].startswith("SCAN") and "VIRTUAL TABLE" not in row[3]]
    assert scans == []
    assert any("headrace_association_execution" in row[3] for row in plans)


def test_a_file_without_our_indexes_gets_them(recorded, tmp_path) -> None:
    path = tmp_path / "metadata.db"
    shutil.copy(recorded.path, path)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP INDEX IF EXISTS headrace_association_execution")
    with SqliteSource(path) as opened:
        assert opened.executions([1])[1].run_id == recorded.runs[0]
    with sqlite3.connect(path) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert "headrace_association_execution" in names
    with Store(path) as store:  # ML Metadata goes on beside them
        assert len(store.runs()) == 40


def test_a_path_with_signs_that_mean_something_in_an_address(recorded, tmp_path) -> None:
    path = tmp_path / "50% #1? yes" / "metadata.db"
    path.parent.mkdir()
    shutil.copy(recorded.path, path)
    with SqliteSource(path) as opened:
        assert opened.run_ids(limit=1) == recorded.runs[-1:]


def test_a_workspace_that_may_only_be_read(recorded, tmp_path, monkeypatch) -> None:
    """Neither lock nor index can be made; answers are the same."""
    path = tmp_path / "metadata.db"
    shutil.copy(recorded.path, path)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP INDEX IF EXISTS headrace_association_execution")

    def refused(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("pipelines.lineage.sqlite.exclusive", refused)
    with SqliteSource(path) as opened:
        assert opened.executions([1])[1].run_id == recorded.runs[0]
    assert not path.with_suffix(".lock").exists()


def test_a_file_that_is_no_database(tmp_path) -> None:
    path = tmp_path / "metadata.db"
    path.write_text("hello" * 1000)
    for _ in range(2):  # the lock is given back
        with pytest.raises(WorkspaceError, match="cannot be read"), SqliteSource(path):
            pass


def test_a_store_in_which_nothing_was_pushed(tmp_path) -> None:
    with Store(tmp_path / "metadata.db") as store:
        store.begin_run("digits-1-aaaa", "digits", 1.0, {})
    with SqliteSource(tmp_path / "metadata.db") as opened:
        assert opened.pushes() == []
        assert opened.run_ids() == ["digits-1-aaaa"]
        assert opened.run_executions("digits-1-aaaa") == []

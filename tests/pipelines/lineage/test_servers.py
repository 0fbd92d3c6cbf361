"""The chain's metadata calls on real MariaDB and PostgreSQL servers."""

# No `from __future__ import annotations`: TFX reads the annotations of component functions.
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tfx import v1 as tfx
from tfx.dsl.compiler import compiler, constants
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.portable import runtime_parameter_utils
from tfx.proto.orchestration import pipeline_pb2

from bench.recorded_runs import Writer
from pipelines import errors
from pipelines.lineage import copying, query, store
from pipelines.lineage.api import ApiSource
from pipelines.lineage.database import PASSWORD_VARIABLE, VARIABLE, Database, settle
from pipelines.lineage.records import ArtifactRecord
from pipelines.lineage.sqlite import SqliteSource
from pipelines.lineage.store import INPUT_FILE, Store
from pipelines.runners import cached
from pipelines.runners.local import LocalRunner
from pipelines.runners.node import RunFiles
from pipelines.stages import Metadata
from tests import servers

NOTE = "ä ✓ {'a': \"it's\"} \\ \\\\ \n %"
DATABASES = ("calls", "calls_by_socket", "recorded", "chain", "commands")


@pytest.fixture(scope="module", params=["mariadb", "postgresql"])
def server(request) -> Iterator[servers.Server]:
    with getattr(servers, request.param)(DATABASES) as running:
        yield running


@pytest.fixture(autouse=True)
def password(monkeypatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv(PASSWORD_VARIABLE, servers.PASSWORD)


@pytest.mark.parametrize("by_socket", [False, True])
def test_what_a_run_writes_is_read_again(server, tmp_path, by_socket) -> None:
    name = "calls_by_socket" if by_socket else "calls"
    database = Database(tmp_path / "metadata.db", server.url(name, by_socket=by_socket))
    file = ArtifactRecord(0, INPUT_FILE, "/d/it's a_file%.csv", {"sha256": "f" * 64, "records": 4})
    with Store(database) as record:
        assert record.runs() == []
        record.begin_run("m-1-aaaa", "m", 1.0, {"config": "{}", "note": NOTE})
        details = {"model": "m", "from_version": 2, "to_version": 1, "reason": "slow", "at": 3.0}
        operation = record.begin_operation(store.ROLLBACK, details, {})
        record.link_inputs(operation, INPUT_FILE, "files", [file])
        other = record.begin_operation(store.PRUNE, {"at": 4.0}, {})
        record.link_inputs(other, INPUT_FILE, "files", [file])  # the same artifact
        record.annotate_execution(operation, {"examples": 3, "wall_s": 0.5, "text": "x" * 60_000})
        record.end_operation(operation, ok=True)
        record.end_run("m-1-aaaa", store.COMPLETE, 2.0, {"summary": {}})
    assert not database.path.exists()
    with Store(database) as record:
        run = record.find_run("latest")
        assert (run.state, run.ended, run.details["note"]) == ("complete", 2.0, NOTE)
    with ApiSource(database) as source:
        assert [switch.reason for switch in source.switches("m")] == ["slow"]
        execution = source.executions([operation])[operation]
        assert (execution.node, execution.properties["examples"]) == ("HeadraceRollback", 3)
        assert len(str(execution.properties["text"])) == 60_000
        (number,) = source.input_files("/d")
        assert source.input_files("/d/it's a_file%.csv") == [number]
        assert source.input_files("/d/it's a-file%.csv") == []


def test_answers_are_those_of_the_file(server, recorded, tmp_path) -> None:
    database = Database(tmp_path / "metadata.db", server.url("recorded"))
    runs = Writer(database, seed=3).write(10)
    assert runs == recorded.runs[:10]
    with SqliteSource(recorded.path) as file, ApiSource(database) as api:
        for run in runs:
            assert file.run_executions(run) == api.run_executions(run)
        lineages = [query.follow(source, query.resolve(source, "digits@1"), "up") for source in (file, api)]
        trees = [_without_times(lineage) for lineage in lineages]
        assert trees[0] == trees[1]
        assert api.run_ids("ph") == [run for run in reversed(runs) if run.startswith("ph")]
        assert [push.name for push in api.pushes("digits")]


def _without_times(lineage: query.Lineage) -> object:
    nodes = {number: (item.node, item.run_id) for number, item in lineage.executions.items()}
    return sorted(map(repr, lineage.edges)), nodes, lineage.artifacts


@component
def Count(number: tfx.dsl.components.Parameter[int]) -> tfx.dsl.components.OutputDict(total=int):
    return {"total": number + 1}


@component
def Tell(total: int, place: tfx.dsl.components.Parameter[str]):
    Path(place).write_text(str(total))


def test_nodes_run_side_by_side_and_are_cached(server, tmp_path) -> None:
    database = Database(tmp_path / "metadata.db", server.url("chain"))
    assert [_run(database, tmp_path, f"r-{number}") for number in (1, 2)] == [True, True]
    assert (tmp_path / "told").read_text() == "3"
    with Store(database) as record:
        states = [{node.node: node.state for node in record.nodes(run)} for run in ("r-1", "r-2")]
    assert states[0] == {"one": "complete", "two": "complete", "Tell": "complete"}
    assert set(states[1].values()) == {"cached"}
    _look_at_a_copy(database, tmp_path)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(servers.PASSWORD.encode() in content for content in written)


def _look_at_a_copy(database: Database, folder: Path) -> None:
    """As `headrace explain-cache` does: what was run is found, and the server's record stays as it is."""
    files = RunFiles(folder / "r-3", Database(folder / "copy.db"))
    files.folder.mkdir()
    copying.copy_to_file(database, files.database.path)
    ir = pipeline_pb2.Pipeline.FromString((folder / "ir").read_bytes())
    runtime_parameter_utils.substitute_runtime_parameter(
        ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: "r-3"}
    )
    found = cached.looked_up(ir, files, (), lambda: None)
    assert found == dict.fromkeys(("one", "two", "Tell"), "cached"), (files.folder / "look.log").read_text()
    with Store(database) as record:
        assert record.nodes("r-3") == []
        (before, *_), nodes = record.runs(), record.nodes("r-1")
    with Store(files.database) as record:
        assert record.nodes("r-1") == nodes
        assert record.find_run("latest") == before


def _run(database: Database, folder: Path, run_id: str) -> bool:
    one, two = Count(number=1).with_id("one"), Count(number=2).with_id("two")
    pipeline = tfx.dsl.Pipeline(
        pipeline_name="p",
        pipeline_root=str(folder / "root"),
        components=[one, two, Tell(total=two.outputs["total"], place=str(folder / "told"))],
        enable_cache=True,
        metadata_connection_config=database.config(password=False),
    )
    ir = compiler.Compiler().compile(pipeline)
    (folder / "ir").write_bytes(ir.SerializeToString())
    runtime_parameter_utils.substitute_runtime_parameter(
        ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id}
    )
    files = RunFiles(folder / run_id, database)
    files.folder.mkdir()
    with Store(database) as record:
        record.begin_run(run_id, "p", 1.0, {})
    return LocalRunner(files, lambda: None, parallel=2).run_with_ir(ir)


def test_commands_find_the_server_that_a_workspace_noted(server, tmp_path, headrace) -> None:
    (tmp_path / "password").write_text(servers.PASSWORD + "\n")
    settings = Metadata(url=server.url("commands"), password_file=str(tmp_path / "password"))
    with Store(settle(tmp_path, settings)) as record:
        record.begin_run("m-1-aaaa", "m", 1.0, {})
    assert servers.PASSWORD not in (tmp_path / "metadata.json").read_text()
    done = headrace("runs", "--workspace", str(tmp_path))
    assert done.code == 0 and "m-1-aaaa" in done.out
    with pytest.raises(errors.WorkspaceError, match="history of this workspace"):
        settle(tmp_path, Metadata(url=server.url("calls")))
    (tmp_path / "password").write_text("wrong")
    refused = headrace("lineage", "latest", "--workspace", str(tmp_path))
    assert refused.code == 2 and "wrong" not in refused.err
    assert server.url("commands") in refused.err


def test_a_wrong_password_or_database_is_said_without_the_password(server, tmp_path, monkeypatch) -> None:
    nothing = Database(tmp_path / "metadata.db", server.url("nothing"))
    with pytest.raises(errors.WorkspaceError, match="cannot be opened") as caught, Store(nothing):
        pass
    assert servers.PASSWORD not in json.dumps([caught.value.headline, caught.value.remedy])
    monkeypatch.setenv(PASSWORD_VARIABLE, "wr0ng")
    with pytest.raises(errors.WorkspaceError) as caught, ApiSource(nothing):
        pass
    assert "wr0ng" not in str(caught.value)
    with contextlib.ExitStack() as held:  # the lock was given back
        held.enter_context(nothing.exclusive())

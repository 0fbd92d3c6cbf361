"""What made this, what came of it, what was serving: on recorded runs."""

from __future__ import annotations

import shutil
import sqlite3

import pytest

from pipelines.errors import NotFoundError
from pipelines.lineage import query
from pipelines.lineage.records import ArtifactRecord
from pipelines.lineage.source import Push, Switch
from pipelines.lineage.sqlite import SqliteSource
from pipelines.lineage.store import INPUT_FILE, Store

CHAIN = [
    "ExampleGen", "StatisticsGen", "SchemaGen", "Transform", "Trainer", "Rewriter", "Evaluator",
    "InfraValidator", "Pusher",
]  # fmt: skip


def nodes(lineage) -> set[str]:
    return {execution.node for execution in lineage.executions.values()}


def follow(source, name: str, direction: query.Direction, depth: int | None = None) -> query.Lineage:
    return query.follow(source, query.resolve(source, name), direction, depth)


def test_a_version_comes_from_the_whole_chain_and_its_files(source) -> None:
    lineage = follow(source, "digits@1", "up")
    assert nodes(lineage) == set(CHAIN)  # ExampleValidator only looked
    assert not lineage.cut
    files = [artifact for artifact in lineage.artifacts.values() if artifact.type == "InputFile"]
    assert len(files) == 4
    assert {execution.state for execution in lineage.executions.values()} == {"complete"}


def test_every_execution_is_there_once(source) -> None:
    lineage = follow(source, "digits@1", "up")
    assert len(lineage.executions) == len(CHAIN)
    assert len(set(lineage.edges)) == len(lineage.edges)


def test_a_baseline_is_shown_and_not_followed(source) -> None:
    """Else every version would come from all before it."""
    newest = follow(source, "digits@latest", "up")
    baselines = [edge for edge in newest.edges if edge.key == "baseline_model"]
    assert len(baselines) == 1
    assert baselines[0].artifact in newest.artifacts
    assert not any(edge.artifact == baselines[0].artifact and not edge.reads for edge in newest.edges)


def test_a_cached_run_leads_to_the_run_that_did_the_work(source, recorded) -> None:
    states = {
        run: {item.state for item in source.executions(source.run_executions(run)).values()}
        for run in recorded.runs
    }
    cached = next(run for run, found in states.items() if found == {"cached"})
    lineage = follow(source, cached, "up")
    assert {item.state for item in lineage.executions.values()} == {"complete"}
    assert cached not in {item.run_id for item in lineage.executions.values()}


def test_a_file_leads_to_what_saw_it(source) -> None:
    lineage = follow(source, "/data/digits/1/part-2.csv", "down")
    kinds = {artifact.type for artifact in lineage.artifacts.values()}
    assert {"Model", "ModelEvaluation", "PushedModel"} <= kinds
    assert all(item.run_id.startswith("digits-") for item in lineage.executions.values())


def test_up_and_down_agree(source) -> None:
    """A file is behind a version where, and only where, the version came of the file."""
    for push in source.pushes():
        behind = follow(source, push.name, "up")
        for artifact in list(behind.artifacts.values()):
            if artifact.type == "InputFile":
                assert push.artifact in follow(source, artifact.uri, "down").artifacts


def test_a_folder_stands_for_its_files(source) -> None:
    target = query.resolve(source, "/data/digits/1")
    assert (target.kind, len(target.artifacts)) == ("file", 4)


def test_a_file_of_a_folder_that_was_recorded_whole(recorded, tmp_path) -> None:
    """By the report of what was read; a neighbour that was not read is not known."""
    path = tmp_path / "metadata.db"
    shutil.copy(recorded.path, path)
    folder = ArtifactRecord(
        0, INPUT_FILE, "/photos/cat", {"sha256": "1", "bytes": 9, "files": 2, "records": 2}
    )
    report = tmp_path / "report"
    report.mkdir()
    (report / "files.jsonl").write_text('{"path": "/photos/cat/1.jpg"}\n{"path": "/photos/cat/2.jpg"}\n')
    with Store(path) as store:
        store.link_inputs(1, INPUT_FILE, "files", [folder])
    with sqlite3.connect(path) as connection:
        number = "SELECT artifact_id FROM Event JOIN EventPath ON event_id = id AND step_key = 'report'"
        connection.execute(
            f"UPDATE Artifact SET uri = ? WHERE id IN ({number} WHERE execution_id = 1)", [str(report)]
        )
    with SqliteSource(path) as opened:
        assert query.resolve(opened, "/photos/cat/2.jpg").kind == "file"
        assert query.resolve(opened, "/photos/cat").kind == "file"
        with pytest.raises(NotFoundError):
            query.resolve(opened, "/photos/cat/3.jpg")
        (report / "files.jsonl").unlink()
        with pytest.raises(NotFoundError):  # neither listed nor there
            query.resolve(opened, "/photos/cat/2.jpg")


def test_a_file_that_one_run_recorded_and_another_with_its_folder(recorded, tmp_path) -> None:
    """Versions of the second would else be missing among those that saw it."""
    path = tmp_path / "metadata.db"
    shutil.copy(recorded.path, path)
    folder = ArtifactRecord(
        0, INPUT_FILE, "/photos/cat", {"sha256": "1", "bytes": 9, "files": 2, "records": 2}
    )
    own = ArtifactRecord(0, INPUT_FILE, "/photos/cat/2.jpg", {"sha256": "2", "bytes": 9, "records": 1})
    with Store(path) as store:
        store.link_inputs(1, INPUT_FILE, "files", [folder, own])
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "files.jsonl").write_text('{"path": "/photos/cat/2.jpg"}\n')
    with sqlite3.connect(path) as connection:
        number = "SELECT artifact_id FROM Event JOIN EventPath ON event_id = id AND step_key = 'report'"
        connection.execute(
            f"UPDATE Artifact SET uri = ? WHERE id IN ({number} WHERE execution_id = 1)",
            [str(tmp_path / "report")],
        )
    with SqliteSource(path) as opened:
        assert len(query.resolve(opened, "/photos/cat/2.jpg").artifacts) == 2


def test_depth_counts_executions(source) -> None:
    one = follow(source, "digits@1", "up", 1)
    assert nodes(one) == {"Pusher"}
    assert one.cut
    assert nodes(follow(source, "digits@1", "up", 2)) == {"Pusher", "Rewriter", "Evaluator", "InfraValidator"}
    assert not follow(source, "digits@1", "up", 50).cut


def test_downwards_from_a_run_begins_with_what_it_made(source, recorded) -> None:
    lineage = follow(source, recorded.runs[0], "down")
    assert "PushedModel" in {artifact.type for artifact in lineage.artifacts.values()}
    makers = {edge.execution for edge in source.producers(lineage.target.artifacts)}
    assert makers <= set(source.run_executions(recorded.runs[0]))


def test_an_artifact_by_its_number(source) -> None:
    push = source.pushes()[0]
    assert query.resolve(source, f"artifact:{push.artifact}").artifacts == (push.artifact,)
    for wrong in ("artifact:99999999", "artifact:x"):
        with pytest.raises(NotFoundError, match="no artifact"):
            query.resolve(source, wrong)


def test_a_run_by_prefix_and_latest(source, recorded) -> None:
    assert query.find_run(source, "latest").run_id == recorded.runs[-1]
    assert query.find_run(source, recorded.runs[3][:-2]).run_id == recorded.runs[3]
    with pytest.raises(NotFoundError, match="Several runs begin with 'digits'"):
        query.find_run(source, "digits")
    with pytest.raises(NotFoundError, match="Did you mean"):
        query.find_run(source, recorded.runs[3][1:])


@pytest.mark.parametrize(
    ("name", "headline", "remedy"),
    [
        ("digits@999", "Version 999 of 'digits' was never pushed", "headrace models"),
        ("digit@1", "no model 'digit'", "Did you mean 'digits'"),
        ("digits_1", "Nothing is known of 'digits_1'", "Did you mean 'digits@1'"),
        ("/data/digits/1/part-9.csv", "Nothing is known", "headrace runs"),
        ("zzz", "Nothing is known", "headrace runs"),
    ],
)
def test_names_that_nothing_has(source, name: str, headline: str, remedy: str) -> None:
    with pytest.raises(NotFoundError) as raised:
        query.resolve(source, name)
    assert headline in raised.value.headline
    assert remedy in raised.value.remedy


def push(version: int, at: float) -> Push:
    return Push(version, "m", version, f"/serving/m/{version}", at)


def numbers(pushes: list[Push], switches: list[Switch], *times: float) -> list[int | None]:
    history = query.services(pushes, switches)
    found = [query.serving_at(history, time)[0] for time in times]
    return [service.version if service else None for service in found]


def test_what_was_serving() -> None:
    pushes = [push(1, 10.0), push(2, 20.0), push(3, 30.0)]
    assert numbers(pushes, [], 9.9, 10.0, 29.9, 31.0) == [None, 1, 2, 3]
    history = query.services(pushes, [])
    assert query.serving_at(history, 15.0) == (history[0], history[1])
    assert query.serving_at(history, 31.0) == (history[2], None)
    assert query.serving_at([], 1.0) == (None, None)


def test_a_server_takes_the_highest_number() -> None:
    """Two pushes at once: the lower number may be recorded later."""
    assert numbers([push(2, 10.0), push(1, 11.0)], [], 12.0) == [2]


def test_rollbacks_count_until_the_next_push() -> None:
    pushes = [push(1, 10.0), push(2, 20.0), push(3, 30.0), push(4, 60.0)]
    switches = [Switch(1, 40.0, "3 is slow"), Switch(2, 50.0, "")]
    assert numbers(pushes, switches, 35.0, 45.0, 55.0, 65.0) == [3, 1, 2, 4]
    back = query.services(pushes, switches)[3]
    assert (back.how, back.reason) == ("put in service", "3 is slow")

"""Rolling back and pruning: what moves, what is recorded, and what a server notices."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ml_metadata.proto import metadata_store_pb2 as pb

from components.serving import manifest
from components.serving.client import ModelClient
from components.serving_pusher import root as serving_root
from pipelines import operations
from pipelines.errors import NotFoundError, WorkspaceError
from pipelines.lineage.store import Store
from pipelines.workspace import Workspace
from tests.components.serving.server import models
from tests.components.serving.server.running_server import in_thread, wait_for


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    """Versions 1 to 4 of `m`, each with its pushed artifact."""
    opened = Workspace.open(tmp_path / "w", create=True)
    for number in range(1, 5):
        folder = opened.serving_root("m") / str(number)
        folder.mkdir(parents=True)
        (folder / "saved_model.pb").write_text(str(number))
        manifest.write(folder, {})
    with Store(opened.database) as store:
        kind = store._store.put_artifact_type(pb.ArtifactType(name="PushedModel"), can_add_fields=True)
        for number in range(1, 5):
            artifact = pb.Artifact(type_id=kind, uri=f"/pushed/{number}")
            destination = str(opened.serving_root("m") / str(number))
            artifact.custom_properties["pushed_destination"].string_value = destination
            store._store.put_artifacts([artifact])
    return opened


def recorded(workspace: Workspace, execution_id: int | None) -> tuple[Any, dict[str, list[str]]]:
    """An execution, and the uris of its artifacts by role."""
    assert execution_id is not None
    with Store(workspace.database) as store:
        (execution,) = store._store.get_executions_by_id([execution_id])
        roles: dict[str, list[str]] = {}
        for event in store._store.get_events_by_execution_ids([execution_id]):
            assert event.type == pb.Event.INPUT
            (artifact,) = store._store.get_artifacts_by_id([event.artifact_id])
            roles.setdefault(event.path.steps[0].key, []).append(artifact.uri)
        return execution, {role: sorted(uris) for role, uris in roles.items()}


def test_a_rollback_goes_to_the_next_older_version_and_is_recorded(workspace) -> None:
    done = operations.roll_back(workspace, "m", None, "slow", 9.0)
    assert (done.change.before, done.change.after) == (4, 3)
    execution, roles = recorded(workspace, done.execution_id)
    assert execution.type == operations.ROLLBACK
    assert execution.last_known_state == pb.Execution.COMPLETE
    values = execution.custom_properties
    assert (values["model"].string_value, values["reason"].string_value) == ("m", "slow")
    assert (values["from_version"].int_value, values["to_version"].int_value) == (4, 3)
    assert roles == {"in_service": ["/pushed/3"], "withdrawn": ["/pushed/4"]}


def test_rolling_forward_is_recorded_too(workspace) -> None:
    operations.roll_back(workspace, "m", 1, "", 9.0)
    done = operations.roll_back(workspace, "m", 4, "", 10.0)
    assert serving_root.versions(workspace.serving_root("m")) == [1, 2, 3, 4]
    _, roles = recorded(workspace, done.execution_id)
    assert roles == {"in_service": ["/pushed/4"], "restored": ["/pushed/2", "/pushed/3"]}


def test_nothing_to_do_is_not_recorded(workspace) -> None:
    assert operations.roll_back(workspace, "m", 4, "", 9.0).execution_id is None


def test_a_move_that_fails_is_recorded_as_failed(workspace, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/serving")

    monkeypatch.setattr(serving_root, "_withdraw", fail)
    with pytest.raises(WorkspaceError, match="Permission denied"):
        operations.roll_back(workspace, "m", 1, "", 9.0)
    with Store(workspace.database) as store:
        (execution,) = store._store.get_executions_by_type(operations.ROLLBACK)
    assert execution.last_known_state == pb.Execution.FAILED
    assert serving_root.in_service(workspace.serving_root("m")) == 4


def test_mistakes(workspace) -> None:
    with pytest.raises(NotFoundError, match="There is no model 'n'"):
        operations.roll_back(workspace, "n", None, "", 9.0)
    with pytest.raises(NotFoundError, match="There is no version 7"):
        operations.roll_back(workspace, "m", 7, "", 9.0)
    operations.roll_back(workspace, "m", 1, "", 9.0)
    with pytest.raises(NotFoundError, match="no older version than 1") as caught:
        operations.roll_back(workspace, "m", None, "", 9.0)
    assert caught.value.remedy == "Withdrawn: 2, 3, 4; name one with --to."


def test_a_damaged_version_is_not_put_in_service(workspace) -> None:
    (workspace.serving_root("m") / "2" / "saved_model.pb").unlink()
    with pytest.raises(WorkspaceError, match=r"Version 2 is damaged: saved_model\.pb is missing"):
        operations.roll_back(workspace, "m", 2, "", 9.0)
    assert serving_root.in_service(workspace.serving_root("m")) == 4


def test_a_version_that_answered_wrongly_needs_force(workspace) -> None:
    root = workspace.serving_root("m")
    serving_root.withdraw(root, 4, serving_root.Withdrawal("canary", "it answers wrongly", 1.0))
    with pytest.raises(WorkspaceError, match="it answers wrongly"):
        operations.roll_back(workspace, "m", 4, "", 9.0)
    assert operations.roll_back(workspace, "m", 4, "", 9.0, force=True).change.after == 4


def test_pruning_keeps_what_is_in_service_and_the_newest(workspace) -> None:
    operations.roll_back(workspace, "m", 1, "", 9.0)
    plan = operations.plan_prune(workspace, "m", 2)
    assert (plan.removed, plan.kept, plan.in_service) == ([2, 3], [1, 4], 1)
    assert operations.plan_prune(workspace, "m", 2, served=[3]).removed == [2]
    assert operations.plan_prune(workspace, "m", 1).kept == [1]
    assert operations.plan_prune(workspace, "m", 9).removed == []
    _, roles = recorded(workspace, operations.prune(workspace, "m", plan, 10.0))
    assert roles == {"removed": ["/pushed/2", "/pushed/3"]}
    assert operations.prune(workspace, "m", operations.plan_prune(workspace, "m", 2), 11.0) is None
    root = workspace.serving_root("m")
    assert (serving_root.versions(root), list(serving_root.withdrawals(root))) == ([1], [4])


class _Load:
    """Requests from four clients, until it ends."""

    def __init__(self, rest_port: int) -> None:
        self.answers: list[float] = []
        self._port, self._stop = rest_port, threading.Event()
        self._pool = ThreadPoolExecutor(4)

    def _send(self) -> None:
        client = ModelClient("127.0.0.1", self._port)
        while not self._stop.wait(0.002):
            body = {"instances": [1.0]}
            (answer,) = client._call("number:predict", body)["predictions"]
            self.answers.append(answer)

    def __enter__(self) -> _Load:
        self._running = [self._pool.submit(self._send) for _ in range(4)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for future in self._running:
            future.result()
        self._pool.shutdown()


def test_a_server_under_load_changes_over_without_a_failed_request(tmp_path) -> None:
    workspace = Workspace.open(tmp_path / "served", create=True)
    root = workspace.serving_root("number")
    for number in (1, 2, 3):
        models.numbered(root / str(number), number)
    with (
        in_thread(model_base_path=str(root), model_name="number") as clients,
        _Load(clients.rest_port) as load,
    ):
        client = ModelClient("127.0.0.1", clients.rest_port)

        def go(target: int) -> float:
            sent = len(load.answers)
            began = time.monotonic()
            operations.roll_back(workspace, "number", target, "", 1.0)
            operations.wait_until_served(client, "number", target, 10.0, time.monotonic, time.sleep)
            took = time.monotonic() - began
            wait_for(lambda: len(load.answers) > sent + 50 and set(load.answers[-20:]) == {float(target)})
            return took

        wait_for(lambda: len(load.answers) > 50)
        assert go(1) < 10.0
        assert go(3) < 10.0
    # Never a version that was not put in service, such as the one between.
    assert set(load.answers) == {1.0, 3.0}


def test_a_server_that_does_not_change_over(tmp_path) -> None:
    workspace = Workspace.open(tmp_path / "served", create=True)
    root = workspace.serving_root("number")
    models.numbered(root / "1", 1)
    with in_thread(model_base_path=str(root), model_name="number") as clients:
        client = ModelClient("127.0.0.1", clients.rest_port)
        assert operations.served_versions(client, "number") == [1]
        now = iter(range(100))
        with pytest.raises(operations.NotServedError, match="does not serve version 2 after 3 s; loaded: 1"):
            operations.wait_until_served(client, "number", 2, 3.0, lambda: next(now), lambda seconds: None)
    with pytest.raises(operations.NotServedError, match="does not answer"):
        operations.served_versions(client, "number")


def test_versions_of_a_workspace_that_was_moved_are_found(workspace, tmp_path) -> None:
    moved = Workspace(tmp_path / "elsewhere")
    Path(workspace.root).rename(moved.root)
    _, roles = recorded(moved, operations.roll_back(moved, "m", 3, "", 9.0).execution_id)
    assert roles["withdrawn"] == ["/pushed/4"]

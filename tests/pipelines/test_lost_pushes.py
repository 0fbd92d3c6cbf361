"""A run that was killed between putting a version into service and recording that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ml_metadata.proto import metadata_store_pb2 as pb

from pipelines import leases, recovery
from pipelines.lineage import query
from pipelines.lineage import store as lineage
from pipelines.lineage.open import record_of
from pipelines.lineage.store import Store
from pipelines.workspace import Workspace

RUN = "trips-20260101-020000-abcd"


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    made = Workspace.open(tmp_path / "w", create=True)
    folder = made.run_folder(RUN)
    folder.mkdir(parents=True)
    (folder / leases.FILE).write_text("{}")
    with Store(made.database) as store:
        store.begin_run(RUN, "trips", 100.0, {"config": "{}"})
        raw = store._store
        kind = raw.put_execution_type(pb.ExecutionType(name="components.serving_pusher.component.Pusher"))
        contexts = [
            pb.Context(type_id=raw.put_context_type(pb.ContextType(name=kind)), name=name)
            for kind, name in ((lineage.TFX_RUN_TYPE, RUN), (lineage.TFX_NODE_TYPE, "trips.Pusher"))
        ]
        raw.put_execution(pb.Execution(type_id=kind, last_known_state=pb.Execution.RUNNING), [], contexts)
    return made


def put_into_service(workspace: Workspace, version: int, run: str = RUN) -> Path:
    folder = workspace.serving_root("trips") / str(version)
    (folder / "assets.extra").mkdir(parents=True)
    (folder / "assets.extra" / "mlmd_uuid").write_text(json.dumps({"run": run}))
    return folder


def test_what_it_put_into_service_is_recorded_when_it_is_found_dead(workspace) -> None:
    folder = put_into_service(workspace, 3)
    assert recovery.settle_dead(workspace) == [RUN]
    with record_of(workspace) as source:
        push = query.find_push(source, "trips", "latest")
        assert (push.version, push.destination) == (3, str(folder))
        assert query.run_of(source, push).run_id == RUN
        at = folder.stat().st_ctime
        history = query.services(source.pushes_around("trips", at), source.switches("trips"))
    serving, _ = query.serving_at(history, at + 0.001)
    assert serving is not None
    assert (serving.version, serving.since) == (3, pytest.approx(at))
    assert serving.reason == f"pushed by {RUN}, which was ended before it could record that"
    assert query.serving_at(history, at - 1.0)[0] is None


def test_it_is_recorded_once_and_what_is_recorded_already_is_left_alone(workspace) -> None:
    put_into_service(workspace, 3)
    put_into_service(workspace, 4, run="trips-another")
    recovery.settle_dead(workspace)
    (workspace.run_folder(RUN) / leases.FILE).write_text("{}")
    recovery.settle_dead(workspace)
    with record_of(workspace) as source:
        assert [push.version for push in source.pushes("trips")] == [3]


def test_versions_that_others_pushed_are_none_of_its_business(workspace) -> None:
    folder = put_into_service(workspace, 3)
    (folder / "assets.extra" / "mlmd_uuid").unlink()
    recovery.settle_dead(workspace)
    with record_of(workspace) as source:
        assert list(source.pushes("trips")) == []

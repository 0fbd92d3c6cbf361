"""What gc removes and keeps, on runs of small components with real caching."""

# No `from __future__ import annotations`: TFX reads the annotations of component functions.
import os
import time
from pathlib import Path

import pytest
from tfx import v1 as tfx
from tfx.dsl.compiler import compiler, constants
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.portable import runtime_parameter_utils

from pipelines import cleaning, leases
from pipelines.errors import WorkspaceError
from pipelines.lineage import store as lineage
from pipelines.lineage.open import record_of
from pipelines.lineage.store import CLEANING, Store
from pipelines.runners.local import LocalRunner
from pipelines.runners.node import RunFiles
from pipelines.workspace import Workspace

DAY = 86_400.0
ONE = cleaning.Policy(keep_runs=1, keep_days=0.0)


@component
def Write(
    text: tfx.dsl.components.Parameter[str],
    model: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Model],
):
    Path(model.uri, "weights").write_text(text)


@component
def Read(
    model: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Model],
    copy: tfx.dsl.components.OutputArtifact[tfx.types.standard_artifacts.Model],
):
    Path(copy.uri, "weights").write_text(Path(model.uri, "weights").read_text())


@component
def Fail(model: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Model]):
    raise ValueError("this went wrong")


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace.open(tmp_path / "w", create=True)


def go(
    workspace: Workspace,
    run_id: str,
    text: str,
    *,
    experiment: str = "e",
    fails: bool = False,
    at: float = 0.0,
) -> dict[str, str]:
    """Runs two nodes; returns their states."""
    write = Write(text=text)
    nodes = [write, (Fail if fails else Read)(model=write.outputs["model"])]
    pipeline = tfx.dsl.Pipeline(
        pipeline_name=experiment,
        pipeline_root=str(workspace.artifacts / experiment),
        components=nodes,
        enable_cache=True,
        metadata_connection_config=workspace.database.config(),
    )
    ir = compiler.Compiler().compile(pipeline)
    runtime_parameter_utils.substitute_runtime_parameter(
        ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id}
    )
    files = RunFiles(workspace.run_folder(run_id), workspace.database)
    files.folder.mkdir()
    with Store(workspace.database) as store:
        store.begin_run(run_id, experiment, at, {})
    ok = LocalRunner(files, lambda: None).run_with_ir(ir)
    with Store(workspace.database) as store:
        store.end_run(run_id, lineage.COMPLETE if ok else lineage.FAILED, at + 1.0, {})
        return {node.node: node.state for node in store.nodes(run_id)}


def weights(workspace: Workspace) -> list[str]:
    return sorted(path.read_text() for path in workspace.artifacts.rglob("weights"))


def test_old_runs_go_and_the_newest_stays_cached(workspace) -> None:
    go(workspace, "e-1", "old")
    go(workspace, "e-2", "new")
    with record_of(workspace) as source:
        plan = cleaning.plan(workspace, source, ONE, 10 * DAY)
    assert weights(workspace) == ["new", "new", "old", "old"]  # a plan changes nothing
    assert set(plan.kept) == {"e-2"}
    done = cleaning.clean(workspace, ONE, 10 * DAY)
    assert weights(workspace) == ["new", "new"]
    assert done.bytes >= len("old") * 2
    assert not (workspace.root / ".trash").exists()
    assert set(go(workspace, "e-3", "new").values()) == {"cached"}
    assert cleaning.clean(workspace, ONE, 10 * DAY).bytes == 0
    assert weights(workspace) == ["new", "new"]


def test_what_is_gone_is_made_again_and_not_read(workspace) -> None:
    go(workspace, "e-1", "old")
    go(workspace, "e-2", "new")
    cleaning.clean(workspace, ONE, 10 * DAY)
    assert set(go(workspace, "e-3", "old").values()) == {"complete"}
    assert weights(workspace) == ["new", "new", "old", "old"]


def test_it_is_recorded_and_leaves_artifacts_as_they_were(workspace) -> None:
    go(workspace, "e-1", "old")
    go(workspace, "e-2", "new")
    with record_of(workspace) as source:
        edges = source.outputs(source.run_executions("e-1"))
        before = source.artifacts(edge.artifact for edge in edges)
    done = cleaning.clean(workspace, ONE, 10 * DAY)
    with record_of(workspace) as source:
        assert source.artifacts(before) == before
        assert done.execution_id is not None
        execution = source.executions([done.execution_id])[done.execution_id]
        removed = source.inputs([done.execution_id])
    assert (execution.node, execution.state) == (CLEANING, "complete")
    assert execution.properties["bytes"] == done.bytes > 0
    assert {edge.artifact for edge in removed} == set(before)


def test_each_experiment_and_the_young_are_kept(workspace) -> None:
    go(workspace, "a-1", "x", experiment="a", at=1 * DAY)
    go(workspace, "b-1", "x", experiment="b", at=1 * DAY)
    go(workspace, "a-2", "y", experiment="a", at=8 * DAY)
    go(workspace, "a-3", "z", experiment="a", at=9 * DAY)
    with record_of(workspace) as source:
        young = cleaning.plan(workspace, source, cleaning.Policy(1, 3.0), 10 * DAY)
        few = cleaning.plan(workspace, source, cleaning.Policy(2, 0.0), 10 * DAY)
        old = cleaning.plan(workspace, source, ONE, 10 * DAY)
    assert set(young.kept) == set(few.kept) == {"b-1", "a-2", "a-3"}
    assert set(old.kept) == {"b-1", "a-3"}


def test_a_failed_run_does_not_push_out_the_last_good_one(workspace) -> None:
    go(workspace, "e-1", "good")
    go(workspace, "e-2", "bad", fails=True)
    cleaning.clean(workspace, ONE, 10 * DAY)
    assert weights(workspace) == ["bad", "good", "good"]
    go(workspace, "e-3", "better")
    cleaning.clean(workspace, ONE, 10 * DAY)
    assert weights(workspace) == ["better", "better"]


def test_a_run_that_goes_on_is_left_alone(workspace) -> None:
    go(workspace, "e-1", "old")
    go(workspace, "e-2", "new")
    with leases.taken(workspace.run_folder("e-1")):
        assert cleaning.clean(workspace, ONE, 10 * DAY).execution_id is None
    cleaning.clean(workspace, ONE, 10 * DAY)
    assert weights(workspace) == ["new", "new"]


def test_a_pushed_version_keeps_its_run(workspace) -> None:
    go(workspace, "e-1", "pushed")
    with record_of(workspace) as source:
        (execution, _) = source.run_executions("e-1")
    version = workspace.serving_root("m") / "1"
    version.mkdir(parents=True)
    _push(workspace, execution, version)
    go(workspace, "e-2", "new")
    cleaning.clean(workspace, ONE, 10 * DAY)
    assert weights(workspace) == ["new", "new", "pushed", "pushed"]
    version.rmdir()
    cleaning.clean(workspace, ONE, 10 * DAY)
    assert weights(workspace) == ["new", "new"]


def _push(workspace: Workspace, execution: int, version: Path) -> None:
    """Adds a pushed version to what an execution wrote."""
    from ml_metadata.proto import metadata_store_pb2 as pb

    from pipelines.lineage.database import connected

    with connected(workspace.database) as store:
        kind = store.put_artifact_type(pb.ArtifactType(name="PushedModel"), can_add_fields=True)
        artifact = pb.Artifact(type_id=kind, uri=str(version))
        artifact.custom_properties["pushed_version"].string_value = version.name
        artifact.custom_properties["pushed_destination"].string_value = str(version)
        (number,) = store.put_artifacts([artifact])
        store.put_events([pb.Event(artifact_id=number, execution_id=execution, type=pb.Event.OUTPUT)])


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_killed_gc_leaves_nothing_half_removed(workspace, monkeypatch, moved) -> None:
    go(workspace, "e-1", "old")
    go(workspace, "e-2", "new")
    rename = Path.rename
    done: list[Path] = []

    def killed(self, target):
        if len(done) == moved:
            raise KeyboardInterrupt
        done.append(self)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        cleaning.clean(workspace, ONE, 10 * DAY)
    monkeypatch.undo()
    for folder in done:
        assert not folder.exists()
    states = go(workspace, "e-3", "old")
    assert states["Write"] in ("cached", "complete")
    assert weights(workspace).count("old") >= 2
    cleaning.clean(workspace, cleaning.Policy(2, 0.0), 10 * DAY)
    assert not (workspace.root / ".trash").exists()
    assert weights(workspace) == ["new", "new", "old", "old"]


def test_a_kill_while_deleting_is_made_good_by_the_next(workspace, monkeypatch) -> None:
    go(workspace, "e-1", "old")
    go(workspace, "e-2", "new")

    def killed(path, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        cleaning.clean(workspace, ONE, 10 * DAY)
    monkeypatch.undo()
    assert weights(workspace) == ["new", "new"]
    assert cleaning.clean(workspace, ONE, 10 * DAY).bytes >= len("old") * 2
    with Store(workspace.database) as store:
        assert store.execution_state(5) == "canceled"  # the killed one is told


def test_training_state_that_nobody_went_on_with(workspace) -> None:
    go(workspace, "e-1", "x")
    states = [workspace.training_root("e") / name / "step-1" for name in ("left", "fresh")]
    for state, age in zip(states, (9 * DAY, 0.0), strict=True):
        state.mkdir(parents=True)
        for path in (state, state.parent):
            os.utime(path, (time.time() - age,) * 2)
    cleaning.clean(workspace, cleaning.Policy(1, 0.0), time.time())
    assert [state.exists() for state in states] == [False, True]  # also with no days kept at all


def test_a_workspace_that_cannot_be_written(workspace, monkeypatch) -> None:
    go(workspace, "e-1", "old")
    go(workspace, "e-2", "new")

    def refused(self, target):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(WorkspaceError, match="cannot be cleaned"):
        cleaning.clean(workspace, ONE, 10 * DAY)

"""The local runner: order, parallelism, crashes. On small pipelines of plain functions."""

# No `from __future__ import annotations`: TFX reads the annotations of component functions.
import atexit
import faulthandler
import os
import signal
from pathlib import Path

import pytest
from tfx import v1 as tfx
from tfx.dsl.compiler import compiler, constants
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration.portable import runtime_parameter_utils

from pipelines.lineage.database import Database
from pipelines.lineage.store import Store
from pipelines.runners.beam import BeamRunner
from pipelines.runners.events import EventLog
from pipelines.runners.local import LocalRunner
from pipelines.runners.node import RunFiles
from pipelines.runners.policy import Policy

Parameter, OutputArtifact = tfx.dsl.components.Parameter, tfx.dsl.components.OutputArtifact
standard_artifacts = tfx.types.standard_artifacts


@component
def Work(folder: Parameter[str], name: Parameter[str]):
    Path(folder, name).touch()


@component
def Crash(folder: Parameter[str]):
    faulthandler.disable()  # its report would be printed among the tests
    os.kill(os.getpid(), signal.SIGSEGV)


@component
def CrashAtExit(folder: Parameter[str]):
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)


@component
def Fail(folder: Parameter[str]):
    raise ValueError("this went wrong")


@component
def FailTwice(folder: Parameter[str], how: Parameter[str], out: OutputArtifact[standard_artifacts.Schema]):
    """Fails in its first two tries, having written something; then ends well."""
    tries = len(list(Path(folder).glob("try-*")))
    Path(folder, f"try-{tries}").touch()
    if tries < 2:
        Path(out.uri, f"left by {tries}").touch()
        if how == "hang":
            signal.pause()
        elif how == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        raise ConnectionError("not now")
    Path(out.uri, "whole").touch()


@component
def Meet(folder: Parameter[str], name: Parameter[str], other: Parameter[str]):
    """Ends only when the other one has begun too."""
    from tests.waiting import wait_until

    Path(folder, name).touch()
    wait_until(lambda: Path(folder, other).exists(), seconds=60)


@pytest.fixture
def run(tmp_path):
    """Runs components with a runner; returns whether it went well, last events by node, and states."""

    def go(components, runner_class=LocalRunner, run_id="r-1", **settings):
        pipeline = tfx.dsl.Pipeline(
            pipeline_name="p",
            pipeline_root=str(tmp_path / "root"),
            components=components,
            enable_cache=True,
            metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
                str(tmp_path / "metadata.db")
            ),
        )
        ir = compiler.Compiler().compile(pipeline)
        runtime_parameter_utils.substitute_runtime_parameter(
            ir, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: run_id}
        )
        folder = tmp_path / run_id
        folder.mkdir()
        files = RunFiles(folder, Database(tmp_path / "metadata.db"))
        ok = runner_class(files, lambda: None, **settings).run_with_ir(ir)
        last = {event.node: event for event in EventLog(folder).new()}
        with Store(tmp_path / "metadata.db") as store:
            store.cancel_running(run_id)
            return ok, last, {node.node: node.state for node in store.nodes(run_id)}

    return go


@pytest.mark.parametrize("runner_class", [LocalRunner, BeamRunner])
def test_nodes_run_after_those_they_wait_for(run, tmp_path, runner_class) -> None:
    first = Work(folder=str(tmp_path), name="one").with_id("first")
    second = Work(folder=str(tmp_path), name="two").with_id("second")
    second.add_upstream_node(first)
    ok, last, states = run([second, first], runner_class)
    assert ok
    assert {name: event.state for name, event in last.items()} == {"first": "complete", "second": "complete"}
    assert (tmp_path / "one").stat().st_mtime_ns <= (tmp_path / "two").stat().st_mtime_ns
    assert list(states) == ["first", "second"]


def test_independent_nodes_run_at_the_same_time(run, tmp_path) -> None:
    nodes = [Meet(folder=str(tmp_path), name=name, other=other).with_id(name) for name, other in ("ab", "ba")]
    ok, last, _ = run(nodes, parallel=2)
    assert ok
    assert {event.state for event in last.values()} == {"complete"}


@pytest.mark.parametrize("runner_class", [LocalRunner, BeamRunner])
def test_a_failing_node_stops_what_waits_for_it(run, tmp_path, runner_class) -> None:
    bad = Fail(folder=str(tmp_path)).with_id("bad")
    after = Work(folder=str(tmp_path), name="after").with_id("after")
    after.add_upstream_node(bad)
    ok, last, states = run([bad, after], runner_class)
    assert not ok
    assert last["bad"].state == "failed"
    assert "Node bad failed: ValueError: this went wrong" in last["bad"].error["headline"]
    assert not (tmp_path / "after").exists()
    assert states == {"bad": "failed"}


def test_a_crash_in_native_code_is_that_nodes_failure(run, tmp_path) -> None:
    crash = Crash(folder=str(tmp_path)).with_id("crash")
    ok, last, states = run([crash])
    assert not ok
    assert (
        "Node crash crashed: its process was ended by signal 11 (SIGSEGV)" in last["crash"].error["headline"]
    )
    assert states == {"crash": "canceled"}


def test_a_crash_in_the_interpreters_shutdown_is_no_failure(run, tmp_path) -> None:
    """What has done its work and recorded it ends before native libraries are taken down."""
    node = CrashAtExit(folder=str(tmp_path)).with_id("node")
    ok, last, states = run([node])
    assert ok and (last["node"].state, states) == ("complete", {"node": "complete"})


def test_a_second_run_is_cached(run, tmp_path) -> None:
    node = Work(folder=str(tmp_path), name="one").with_id("one")
    run([node])
    ok, last, _ = run([node], run_id="r-2")
    assert ok
    assert last["one"].state == "cached"


@pytest.mark.parametrize(
    ("how", "policy"),
    [
        ("raise", Policy(count=2, backoff_s=0.01, on=("ConnectionError",))),
        ("raise", Policy(count=2, backoff_s=0.01, on=("OSError",))),
        ("crash", Policy(count=2, backoff_s=0.01)),
        ("hang", Policy(count=2, backoff_s=0.01, timeout_s=50.0)),
    ],
)
def test_a_node_is_tried_again_and_leaves_no_halves(run, tmp_path, how: str, policy: Policy) -> None:
    node = FailTwice(folder=str(tmp_path), how=how).with_id("node")

    def clock() -> float:
        """The time limit passes when a try that hangs has begun."""
        return 100.0 * min(len(list(tmp_path.glob("try-*"))), 2) if how == "hang" else 0.0

    ok, last, states = run([node], policies={"node": policy}, clock=clock)
    assert ok, last
    assert states == {"node": "complete"}  # three tries, one execution
    assert sorted(path.name for path in tmp_path.glob("try-*")) == ["try-0", "try-1", "try-2"]
    (output,) = (tmp_path / "root" / "node" / "out").iterdir()
    assert [path.name for path in output.iterdir()] == ["whole"]
    told = [event.state for event in EventLog(tmp_path / "r-1").new()]
    assert told == ["running", "failed", "retrying"] * 2 + ["running", "complete"]


@pytest.mark.parametrize(
    ("how", "policy", "headline"),
    [
        ("raise", Policy(count=1, backoff_s=0.01, on=("error",)), "ConnectionError: not now"),
        ("raise", Policy(count=5, on=("crash", "timeout")), "ConnectionError: not now"),
        ("hang", Policy(timeout_s=0.5), "Node node took longer than 0.5 s, and was ended"),
    ],
)
def test_in_the_end_a_node_has_failed(run, tmp_path, how: str, policy: Policy, headline: str) -> None:
    node = FailTwice(folder=str(tmp_path), how=how).with_id("node")
    ok, last, _ = run([node], policies={"node": policy})
    assert not ok
    assert last["node"].state == "failed"
    assert headline in last["node"].error["headline"]

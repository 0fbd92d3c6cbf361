"""Locks of kept pipelines: two runs of the very same are never let in at once."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from tfx.proto.orchestration import pipeline_pb2

from pipelines import leases, plans
from pipelines.workspace import Workspace


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace.open(tmp_path / "w", create=True)


def never() -> None:
    raise AssertionError("it had to wait")


class WaitedError(Exception):
    pass


def waited() -> None:
    raise WaitedError


def keep(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    """Keeps pipelines, of which there is room for one."""
    monkeypatch.setattr(plans, "KEPT", 1)
    for age, key in enumerate(reversed(keys), start=1):
        plans.save(workspace, key, pipeline_pb2.Pipeline())
        os.utime(workspace.root / "compiled" / f"{key}.pb", (1e9 - age, 1e9 - age))


def test_the_lock_of_a_run_that_goes_on_stays_when_its_pipeline_goes(workspace, monkeypatch) -> None:
    keep(workspace, monkeypatch, "old")
    with plans.one_at_a_time(workspace, "old", never):
        keep(workspace, monkeypatch, "new")
        assert plans.load(workspace, "old") is None
        with pytest.raises(WaitedError), plans.one_at_a_time(workspace, "old", waited):
            never()
    keep(workspace, monkeypatch, "newer")
    assert [path.stem for path in Path(workspace.root, "compiled").glob("*.lock")] == []


def test_whoever_waits_for_a_lock_that_is_taken_away_asks_for_the_new_one(workspace) -> None:
    path = workspace.root / "compiled" / "key.lock"
    path.parent.mkdir()
    order: list[str] = []
    waiting = threading.Event()

    def other() -> None:
        with plans.one_at_a_time(workspace, "key", waiting.set):
            order.append("waited")

    with ExitStack() as stack:
        stack.enter_context(plans.one_at_a_time(workspace, "key", never))
        thread = threading.Thread(target=other)
        thread.start()
        assert waiting.wait(20.0)
        # Another file, which another run holds, takes the place of the one that is waited for.
        descriptor = leases.try_lock(path.with_name("other"))
        assert descriptor is not None
        path.with_name("other").replace(path)
    waiting.clear()
    assert waiting.wait(20.0)
    assert order == []
    os.close(descriptor)
    thread.join(20.0)
    assert order == ["waited"]

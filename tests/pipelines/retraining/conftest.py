"""A workspace, and schedulers on a chain that is made up."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines import config
from pipelines.retraining import observe
from pipelines.retraining.scheduler import Scheduler
from pipelines.telemetry.notices import Notice
from pipelines.workspace import Workspace
from tests.pipelines.retraining.chains import Clock, FakeChain


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace.open(tmp_path / "w", create=True)


@pytest.fixture
def make(workspace, tmp_path):
    (tmp_path / "data-1.csv").write_text("a,label\n1,x\n")
    told: list[Notice] = []
    notified: list[tuple[str, str]] = []
    clock = Clock()

    def scheduler(chain: FakeChain, path: str = "data-{SPAN}.csv", **settings: Any) -> Scheduler:
        experiment = config.from_mapping(
            {
                "name": "trips",
                "data": {"path": str(tmp_path / path)},
                "model": {"family": "tabular"},
                "retraining": {"on_new_span": "{SPAN}" in path, **settings},
            }
        )
        return Scheduler(
            experiment,
            workspace,
            chain,
            observe.ignore_drift,
            lambda event, record: notified.append((event, record.trigger)),
            told.append,
            clock=clock,
            sleep=clock.sleep,
        )

    scheduler.told, scheduler.notified, scheduler.clock = told, notified, clock  # type: ignore[attr-defined]
    return scheduler

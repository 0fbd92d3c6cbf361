"""Which run is gone on with, and which must not be."""

from __future__ import annotations

import json

import pytest

from pipelines import config, resuming
from pipelines.compiling import Options
from pipelines.config import to_json
from pipelines.errors import ConfigError, NotFoundError
from pipelines.lineage.store import Store
from pipelines.workspace import Workspace


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace.open(tmp_path / "w", create=True)


class Silent:
    """A run's progress that nobody looks at."""

    def begun(self, run_id: str) -> None: ...
    def loading(self) -> None: ...
    def waiting(self) -> None: ...
    def planned(self, nodes: list[str]) -> None: ...
    def event(self, event: object) -> None: ...
    def tick(self) -> None: ...
    def ended(self, outcome: object, error: object) -> None: ...


def record(
    workspace: Workspace, run_id: str, state: str, settings: str = "", experiment: str = "digits"
) -> None:
    folder = workspace.run_folder(run_id)
    folder.mkdir(parents=True)
    (folder / "template.pb").touch()
    with Store(workspace.database) as store:
        details = {"config": settings or to_json(config.load("digits")), "runner": "local", "cache": True}
        store.begin_run(run_id, experiment, 1.0, details)
        if state != "running":
            store.end_run(run_id, state, 2.0, {})


@pytest.mark.parametrize(
    ("states", "found"),
    [
        (["complete", "failed"], "r-1"),
        (["failed", "complete"], "r-1"),  # the later run has done it
        (["interrupted", "failed"], "r-1"),
        (["complete", "complete"], "r-1"),
    ],
)
def test_latest_is_the_latest_that_is_still_open(workspace, states, found: str) -> None:
    for number, state in enumerate(states):
        record(workspace, f"r-{number}", state)
    assert resuming._find("latest", workspace).run_id == found


def test_a_run_is_found_by_id_prefix_or_experiment(workspace) -> None:
    record(workspace, "a-1", "failed", experiment="a")
    record(workspace, "b-1", "failed", experiment="b")
    assert [resuming._find(name, workspace).run_id for name in ("a", "a-1", "b-", "latest")] == [
        "a-1",
        "a-1",
        "b-1",
        "b-1",
    ]
    with pytest.raises(NotFoundError):
        resuming._find("c", workspace)


def test_a_finished_run_is_only_summed_up(workspace) -> None:
    record(workspace, "r-0", "complete")
    outcome = resuming.resume("r-0", workspace, Silent())
    assert (outcome.run_id, outcome.state, outcome.seconds) == ("r-0", "complete", 0.0)


def test_settings_that_are_no_longer_known(workspace) -> None:
    record(workspace, "r-0", "failed", json.dumps({"name": "digits", "gone": 1}))
    with pytest.raises(ConfigError, match="have changed since it began") as raised:
        resuming.resume("r-0", workspace, Silent())
    assert "settings that are no longer known" in raised.value.place


@pytest.mark.parametrize(
    ("state", "overrides", "options", "same"),
    [
        ("interrupted", (), Options(), True),
        ("failed", (), Options(), True),
        ("complete", (), Options(), False),
        ("interrupted", ("train.epochs=3",), Options(), False),
        ("interrupted", (), Options(to_node="Trainer"), False),
    ],
)
def test_only_a_run_of_just_this_is_gone_on_with(workspace, state: str, overrides, options, same) -> None:
    record(workspace, "r-0", state)
    found = resuming.unfinished_like(config.load("digits", overrides), options, workspace)
    assert found == ("r-0" if same else None)

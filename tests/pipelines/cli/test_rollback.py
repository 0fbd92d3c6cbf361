"""headrace rollback and models prune: what they print, and how they end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from components.serving_pusher import root as serving_root
from pipelines.cli.main import main
from pipelines.lineage.store import Store
from pipelines.workspace import Workspace
from tests.components.serving.server.running_server import free_ports

Headrace = Callable[..., tuple[int, str, str]]


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    opened = Workspace.open(tmp_path / "w", create=True)
    for number in (1, 2, 3):
        (opened.serving_root("m") / str(number)).mkdir(parents=True)
    with Store(opened.database):
        return opened


@pytest.fixture
def headrace(workspace, capsys, monkeypatch) -> Headrace:
    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("pipelines.cli.main._exit", leave)

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([*map(str, arguments), "--workspace", str(workspace.root)])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call


def test_back_and_forward(headrace, workspace) -> None:
    code, out, _ = headrace("rollback", "m", "--to", 1, "--reason", "slow")
    assert code == 0
    assert [line.split(maxsplit=1) for line in out.splitlines()] == [
        ["In", "service  version 1 of m, instead of 3"],
        ["Withdrawn", "2, 3"],
        ["Recorded", "as execution 1"],
    ]
    assert headrace("rollback", "m", "--to", 3)[1].startswith("In service  version 3 of m, instead of 1")
    assert headrace("rollback", "m", "--to", 3)[1] == "Version 3 of m is in service already\n"
    assert serving_root.versions(workspace.serving_root("m")) == [1, 2, 3]


def test_a_server_that_is_not_there_fails_after_the_change(headrace, workspace) -> None:
    address = f"http://127.0.0.1:{free_ports()[0]}"
    code, out, err = headrace("rollback", "m", "--server", address)
    assert code == 1
    assert "In service  version 2" in out
    assert "The server does not answer" in err
    assert headrace("models", "prune", "m", "--keep", 1, "--server", address, "--yes")[0] == 1
    assert serving_root.versions(workspace.serving_root("m")) == [1, 2]


def test_mistakes_exit_2(headrace) -> None:
    for arguments, message in (
        (("rollback", "n"), "There is no model 'n'"),
        (("rollback", "m", "--to", 9), "There is no version 9"),
        (("rollback", "m", "--to", 0), "0 is not in the range"),
        (("models", "prune", "m"), "Missing option '--keep'"),
        (("models", "prune", "../m", "--keep", 1), "There is no model '../m'"),
    ):
        code, _, err = headrace(*arguments)
        assert (code, message in err) == (2, True), err


def test_pruning_is_a_dry_run_unless_told(headrace, workspace) -> None:
    root = workspace.serving_root("m")
    code, out, _ = headrace("models", "prune", "m", "--keep", 2)
    assert (code, serving_root.versions(root)) == (0, [1, 2, 3])
    assert out == "In service  3\nStay        2, 3\nWould go    1; with --yes they do\n"
    assert "Removed     1; recorded as execution" in headrace("models", "prune", "m", "--keep", 2, "--yes")[1]
    assert serving_root.versions(root) == [2, 3]
    assert headrace("models", "prune", "m", "--keep", 2, "--yes")[1].endswith("Nothing is to be removed\n")

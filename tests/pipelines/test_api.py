"""Headrace from Python: what needs no run of the whole chain."""

from __future__ import annotations

import pytest

from pipelines import api, errors


def test_mistakes_raise_what_the_command_line_prints(tmp_path) -> None:
    project = api.Project(tmp_path / "w")
    with pytest.raises(errors.NotFoundError, match="There is no experiment 'digts'"):
        project.run("digts")
    with pytest.raises(errors.ConfigError, match=r"Unknown key 'train\.epoch'"):
        project.run("digits", {"train.epoch": 3})
    with pytest.raises(errors.WorkspaceError, match="There is no workspace here"):
        project.get()


def test_a_run_in_its_own_process_raises_here_what_it_raised_there(tmp_path) -> None:
    missing = str(tmp_path / "nothing")
    with pytest.raises(errors.HeadraceError) as raised:
        api.Project(tmp_path / "w").run({"name": "cats", "data": {"path": missing}}, progress=False)
    assert raised.value.exit_code == 2
    assert missing in raised.value.place
    assert raised.value.remedy

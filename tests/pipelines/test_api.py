"""Headrace from Python: what needs no run of the whole chain."""

from __future__ import annotations

import pandas as pd
import pytest

from pipelines import api, errors
from pipelines.api import frames


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


def test_examples_as_a_frame_and_back(make_example) -> None:
    records = [
        make_example(image=b"\x89PNG", label="cat", age=3, weight=4.5, tags=["a", "b"]),
        make_example(image=b"\xff\xd8", label="d\u00f6g", weight=2.25),
    ]
    frame = frames.from_examples(records)
    assert frame.image.tolist() == [b"\x89PNG", b"\xff\xd8"]
    assert frame.label.tolist() == ["cat", "d\u00f6g"]
    assert frame.age.dtype == "Int64" and frame.age[0] == 3 and frame.age[1] is pd.NA
    assert frame.weight.tolist() == [4.5, 2.25]
    assert frame.tags[0] == ["a", "b"]
    assert frames.to_examples(frame) == records


def test_a_value_that_no_example_holds_is_named() -> None:
    with pytest.raises(errors.InputError, match="A value is no bytes, text or number: 3j") as raised:
        frames.to_examples(pd.DataFrame({"size": [3j]}))
    assert raised.value.place == "column size"

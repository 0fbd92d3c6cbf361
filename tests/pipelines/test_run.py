"""A run that comes to nothing before its first node."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines import config, run
from pipelines.errors import InputError
from pipelines.workspace import Workspace


class _Told:
    """What a run says of itself."""

    def __init__(self) -> None:
        self.states: list[Any] = []

    def begun(self, run_id: str) -> None:
        self.states.append("begun")

    def ended(self, outcome: run.Outcome, error: Any) -> None:
        self.states.append((outcome.state, getattr(error, "headline", None)))

    def loading(self) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("error", "end"),
    [(InputError("no data"), ("failed", "no data")), (KeyboardInterrupt(), ("interrupted", None))],
)
def test_what_was_said_to_begin_is_said_to_end(tmp_path, monkeypatch, error: BaseException, end: Any) -> None:
    """Else it would count as running in metrics for ever."""

    def fail(*given: Any) -> None:
        raise error

    monkeypatch.setattr(run, "template_of", fail)
    told = _Told()
    workspace = Workspace.open(str(tmp_path / "workspace"), create=True)
    with pytest.raises(type(error)):
        run.run(config.load("digits"), workspace, run.Options(), told)  # type: ignore[arg-type]
    assert told.states == ["begun", end]

"""Progress of a run: drawn in place on a terminal, told in plain lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from pipelines.cli.progress import ConsoleProgress
from pipelines.runners.events import COMPLETE, RUNNING, Event


@pytest.mark.parametrize(
    ("settings", "live"),
    [
        ({"force_terminal": True}, True),
        ({"force_terminal": True, "no_color": True}, False),
        ({"force_terminal": False}, False),
    ],
)
def test_live_only_on_a_terminal_with_colours(settings, live: bool) -> None:
    out = io.StringIO()
    shown = ConsoleProgress(Console(file=out, width=100, **settings))
    shown.planned(["Trainer"])
    shown.event(Event("Trainer", RUNNING, at=0.0))
    shown.event(Event("Trainer", COMPLETE, at=1.0, seconds=1.0))
    shown.close()
    assert ("\x1b[" in out.getvalue()) == live
    assert "Trainer" in out.getvalue() and "done" in out.getvalue()

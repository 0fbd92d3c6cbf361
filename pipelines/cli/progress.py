"""Shows a run as it goes on: a live table on a terminal, plain lines elsewhere and with NO_COLOR."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pipelines.errors import HeadraceError
from pipelines.runners.events import CACHED, COMPLETE, ENDED, FAILED, RETRYING, RUNNING, SKIPPED, Event

if TYPE_CHECKING:
    from pipelines.run import Outcome

_STYLES = {
    RUNNING: "yellow",
    RETRYING: "yellow",
    COMPLETE: "green",
    CACHED: "cyan",
    FAILED: "bold red",
    SKIPPED: "dim",
}
_WORDS = {COMPLETE: "done"}


class ConsoleProgress:
    """Implements `pipelines.run.Progress`.

    No thread of its own: nodes are forked from this process, and a fork while
    another thread prints can leave a lock taken in the child.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._nodes: dict[str, Event | None] = {}
        self._live: Live | None = None
        self._drawn = 0.0
        self._told_to_wait = False

    def begun(self, run_id: str) -> None:
        self._console.print(f"Run [bold]{run_id}[/bold]", highlight=False)

    def loading(self) -> None:
        if "tfx.components" not in sys.modules:
            self._console.print("Loading TFX (about 15 s)", highlight=False)

    def waiting(self) -> None:
        if not self._told_to_wait:
            self._told_to_wait = True
            self._console.print("Waiting for another run of the very same", highlight=False)

    def planned(self, nodes: list[str]) -> None:
        self._nodes = dict.fromkeys(nodes)
        if self._console.is_terminal and not self._console.no_color:
            self._live = Live(self._table(), console=self._console, auto_refresh=False)
            self._live.start()

    def event(self, event: Event) -> None:
        self._nodes[event.node] = event
        if self._live is None and event.state in (*ENDED, RETRYING):
            self._console.print(
                f"  {event.node:<17} {_word(event.state):<8} {_seconds(event)}", highlight=False
            )

    def tick(self) -> None:
        if self._live is not None and time.monotonic() - self._drawn > 0.25:
            self._drawn = time.monotonic()
            self._live.update(self._table(), refresh=True)

    def ended(self, outcome: Outcome, error: HeadraceError | None) -> None:
        """The table says it."""

    def close(self) -> None:
        """Leaves the last state of the table on the screen."""
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
            self._live.stop()
            self._live = None

    def _table(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("node")
        table.add_column("state", min_width=9)
        table.add_column("time", justify="right", min_width=8)
        for name, event in self._nodes.items():
            if event is None:
                table.add_row(Text(name, "dim"), Text("waiting", "dim"), "")
            else:
                table.add_row(name, Text(_word(event.state), _STYLES[event.state]), _seconds(event))
        return table


def _word(state: str) -> str:
    return _WORDS.get(state, state)


def _seconds(event: Event) -> str:
    seconds = event.seconds if event.seconds is not None else time.time() - event.at
    return f"{seconds:6.1f} s"

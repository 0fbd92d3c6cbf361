"""headrace candidates: what the Rewriter tried in a run, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import click

from pipelines.cli import names
from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.errors import NotFoundError
from pipelines.lineage.store import Store
from pipelines.summary import Summary, summarize
from pipelines.workspace import Workspace


def _number(digits: int) -> Any:
    return lambda value: f"{value:.{digits}f}"


COLUMNS = (
    Column("candidate"),
    Column("chosen", show=lambda value: "*" if value else ""),
    Column("state"),
    Column("size_bytes", "size kB", right=True, show=lambda value: f"{value / 1000:,.0f}"),
    Column("size_ratio", "of it", right=True, show=_number(2)),
    Column("load_ms", right=True, show=_number(0)),
    Column("latency_ms_p50", "p50 ms", right=True, show=_number(2)),
    Column("latency_ms_p95", "p95 ms", right=True, show=_number(2)),
    Column("latency_ratio", "of it", right=True, show=_number(2)),
    Column("throughput", "per s at 32", right=True, show=lambda value: f"{value:,.0f}"),
    Column("peak_memory_mb", "peak MB", right=True, show=_number(0)),
    Column("accuracy", right=True, show=_number(4)),
    Column("agreement", "agree", right=True, show=_number(4)),
    Column("max_shift", "shift", right=True, show=_number(4)),
    Column("drop_bound", "drop at most", right=True, show=_number(2)),
    Column("reason", "verdict"),
)
_NOT_IN_TABLES = ("chosen", "state", "load_ms", "peak_memory_mb", "max_shift")
"""What would leave the verdicts no room."""


@click.command("candidates")
@click.argument("run", shell_complete=names.runs)
@workspace_option
@output_option
def command(run: str, root: str, output: str) -> None:
    """Show what the Rewriter tried in RUN (an id, a unique prefix, or latest), and what came of each.

    \b
    Examples:
      headrace candidates latest
      headrace candidates latest --output json

    Ratios are to the trained model, measured by turns in one process. `drop at
    most` is the upper bound of the accuracy lost, in points. JSON and CSV also
    have load time, peak memory and the largest shift of a probability.
    """
    with Store(Workspace.open(root).database) as store:
        record = store.find_run(run)
        summary = summarize(store, record.run_id)
    if not summary.candidates:
        raise NotFoundError(
            "The run has no candidates", place=record.run_id, remedy="Its Rewriter did not come to an end."
        )
    print_candidates(summary, output)


def print_candidates(summary: Summary, output: str) -> None:
    """The table with what it leaves open; or all rows as JSON or CSV."""
    rows = [row_of(item, summary.chosen) for item in summary.candidates]
    if output != "table":
        show(rows, COLUMNS, output)
        return
    tried = [row for row in rows if row["state"] != "left_out"]
    starred = [{**row, "candidate": row["candidate"] + (" *" if row["chosen"] else "")} for row in tried]
    show(starred, [column for column in COLUMNS if column.key not in _NOT_IN_TABLES], output)
    screen = console()
    for line in (*left_out(summary.candidates), *too_small(summary.candidates, summary.chosen)):
        screen.print(line, highlight=False, soft_wrap=True)
    screen.print(f"Chosen      {summary.chosen}: {summary.reason}", highlight=False, soft_wrap=True)


def row_of(candidate: Mapping[str, Any], chosen: str) -> dict[str, Any]:
    """A row of `candidates.json` as commands list it."""
    figures: Mapping[str, Any] = candidate["figures"] or {}
    ratios = figures.get("latency_ratios")
    row = {column.key: figures.get(column.key) for column in COLUMNS}
    return {
        **row,
        "candidate": candidate["name"],
        "chosen": candidate["name"] == chosen,
        "state": candidate["state"],
        "latency_ratio": median(ratios) if ratios else None,
        "drop_bound": candidate["drop_bound"],
        "reason": candidate["reason"],
    }


def left_out(candidates: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line on what was not tried, and why."""
    rows = [item for item in candidates if item["state"] == "left_out"]
    if not rows:
        return []
    return [f"Left out    {', '.join(item['name'] for item in rows)} ({rows[0]['reason']})"]


def too_small(candidates: Sequence[Mapping[str, Any]], chosen: str) -> list[str]:
    """One line on the slices that were too small to bound, with what they would need."""
    row = next((item for item in candidates if item["name"] == chosen), None)
    small = [item for item in (row["slices"] if row else ()) if item["needed"]]
    if not small:
        return []
    sizes = ", ".join(f"{item['name']} ({item['examples']})" for item in small[:10])
    more = f" and {len(small) - 10} more" if len(small) > 10 else ""
    return [f"Too small   to bound a drop there ({small[0]['needed']} examples needed): {sizes}{more}"]

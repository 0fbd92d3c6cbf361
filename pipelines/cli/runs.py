"""headrace runs: the runs of a workspace."""

from __future__ import annotations

from datetime import datetime

import click
from rich import box
from rich.table import Table

from pipelines import recovery
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.lineage.open import record_of
from pipelines.lineage.store import RunRecord
from pipelines.workspace import Workspace

_STYLES = {"complete": "green", "refused": "yellow", "failed": "red", "interrupted": "red"}


@click.command("runs")
@workspace_option
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many, newest first."
)
def command(root: str, limit: int) -> None:
    """List runs: state, duration, metric, pushed version.

    \b
    Example:
      headrace runs --limit 5
    """
    workspace = Workspace.open(root)
    recovery.settle_dead(workspace)
    with record_of(workspace) as source:
        records = [source.run(run_id) for run_id in source.run_ids(limit=limit)]
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("run", "experiment", "state", "began", "duration", "accuracy", "version", "executed"):
        table.add_column(column, overflow="fold")
    for record in filter(None, records):
        table.add_row(*_row(record, recovery.state_of(record, workspace)))
    console().print(table)


def _row(record: RunRecord, state: str) -> tuple[str, ...]:
    summary = record.details.get("summary") or {}
    accuracy = summary.get("accuracy")
    style = _STYLES.get(state, "")
    nodes = len(summary.get("executed", ())) + len(summary.get("cached", ()))
    return (
        record.run_id,
        record.experiment,
        f"[{style}]{state}[/{style}]" if style else state,
        f"{datetime.fromtimestamp(record.started):%Y-%m-%d %H:%M}",
        f"{record.ended - record.started:.0f} s" if record.ended else "",
        f"{accuracy:.4f}" if accuracy is not None else "",
        summary.get("pushed_version", ""),
        f"{len(summary['executed'])} of {nodes}" if summary else "",
    )

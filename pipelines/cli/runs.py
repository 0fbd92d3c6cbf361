"""headrace runs: the runs of a workspace."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from pipelines import recovery
from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option
from pipelines.lineage.open import record_of
from pipelines.lineage.records import RunRecord
from pipelines.workspace import Workspace

_STYLES = {"complete": "green", "refused": "yellow", "failed": "red", "interrupted": "red"}


def _moment(iso: str) -> str:
    return f"{datetime.fromisoformat(iso):%Y-%m-%d %H:%M}"


COLUMNS = (
    Column("run"),
    Column("experiment"),
    Column("state", style=lambda state: _STYLES.get(state, "")),
    Column("began", show=_moment),
    Column("seconds", "duration", right=True, show=lambda seconds: f"{seconds:.0f} s"),
    Column("accuracy", right=True, show=lambda value: f"{value:.4f}"),
    Column("version"),
    Column("executed", right=True),
    Column("cached", right=True),
)


@click.command("runs")
@workspace_option
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many, newest first."
)
@output_option
def command(root: str, limit: int, output: str) -> None:
    """List runs: state, duration, metric, pushed version, nodes that were executed and cached.

    \b
    Examples:
      headrace runs --limit 5
      headrace runs --output json
    """
    workspace = Workspace.open(root)
    recovery.settle_dead(workspace)
    with record_of(workspace) as source:
        records = [source.run(run_id) for run_id in source.run_ids(limit=limit)]
    rows = [_row(record, recovery.state_of(record, workspace)) for record in records if record is not None]
    show(rows, COLUMNS, output)


def _row(record: RunRecord, state: str) -> dict[str, Any]:
    summary = record.details.get("summary") or {}
    return {
        "run": record.run_id,
        "experiment": record.experiment,
        "state": state,
        "began": datetime.fromtimestamp(record.started).astimezone().isoformat(timespec="seconds"),
        "seconds": round(record.ended - record.started, 1) if record.ended else None,
        "accuracy": summary.get("accuracy"),
        "version": summary.get("pushed_version") or None,
        "executed": len(summary["executed"]) if summary else None,
        "cached": len(summary["cached"]) if summary else None,
    }

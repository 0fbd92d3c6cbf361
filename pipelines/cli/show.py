"""headrace show: one run, node by node."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from pipelines import recovery
from pipelines.cli import names
from pipelines.cli.listing import Column, output_option, print_json, show, table
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.cli.tables import print_summary
from pipelines.lineage.records import NodeRecord
from pipelines.lineage.store import Store
from pipelines.summary import summarize
from pipelines.workspace import Workspace

_STATES = {"complete": "executed"}

COLUMNS = (
    Column("node"),
    Column("state"),
    Column("seconds", right=True, show=lambda value: f"{value:.1f}"),
    Column("peak_memory_mb", "peak MB", right=True, show=lambda value: f"{value:.0f}"),
    Column("outputs", show="\n".join),
)


@click.command("show")
@click.argument("run", shell_complete=names.runs)
@workspace_option
@output_option
def command(run: str, root: str, output: str) -> None:
    """Show RUN (an id, a unique prefix, or `latest`): state, time and outputs of each node.

    \b
    Example:
      headrace show latest
      headrace show latest --output json
    """
    workspace = Workspace.open(root)
    recovery.settle_dead(workspace)
    with Store(workspace.database) as store:
        record = store.find_run(run)
        nodes = store.nodes(record.run_id)
        summary = summarize(store, record.run_id)
    rows = [_row(node) for node in nodes]
    state, error = recovery.state_of(record, workspace), record.details.get("error")
    if output == "json":
        said = {"run": record.run_id, "experiment": record.experiment, "state": state, "error": error}
        print_json({**said, "nodes": rows, "summary": asdict(summary)})
        return
    if output == "csv":
        show(rows, COLUMNS, output)
        return
    screen = console()
    screen.print(f"Run [bold]{record.run_id}[/bold]: {state}", highlight=False)
    if error:
        screen.print(f"Error: {error['headline']}\n  at: {error['place']}", style="red", highlight=False)
    screen.print(table(rows, COLUMNS))
    print_summary(screen, summary)


def _row(node: NodeRecord) -> dict[str, Any]:
    return {
        "node": node.node,
        "state": _STATES.get(node.state, node.state),
        "seconds": node.properties.get("wall_s"),
        "peak_memory_mb": node.properties.get("peak_memory_mb"),
        "outputs": [artifact.uri for key in sorted(node.outputs) for artifact in node.outputs[key]],
    }

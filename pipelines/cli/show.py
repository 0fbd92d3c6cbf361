"""headrace show: one run, node by node."""

from __future__ import annotations

import click
from rich import box
from rich.table import Table

from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.cli.tables import print_summary
from pipelines.lineage.store import NodeRecord, Store
from pipelines.summary import summarize
from pipelines.workspace import Workspace

_STATES = {"complete": "executed"}


@click.command("show")
@click.argument("run")
@workspace_option
def command(run: str, root: str) -> None:
    """Show RUN (an id, a unique prefix, or `latest`): state, time and outputs of each node.

    \b
    Example:
      headrace show latest
    """
    with Store(Workspace.open(root).database) as store:
        record = store.find_run(run)
        nodes = store.nodes(record.run_id)
        summary = summarize(store, record.run_id)
    screen = console()
    screen.print(f"Run [bold]{record.run_id}[/bold]: {record.state}", highlight=False)
    error = record.details.get("error")
    if error:
        screen.print(f"Error: {error['headline']}\n  at: {error['place']}", style="red", highlight=False)
    screen.print(_node_table(nodes))
    print_summary(screen, summary)


def _node_table(nodes: list[NodeRecord]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("node", "state", "seconds", "peak MB", "outputs"):
        table.add_column(
            column, overflow="fold", justify="right" if column in ("seconds", "peak MB") else "left"
        )
    for node in nodes:
        wall, memory = node.properties.get("wall_s"), node.properties.get("peak_memory_mb")
        outputs = [artifact.uri for key in sorted(node.outputs) for artifact in node.outputs[key]]
        table.add_row(
            node.node,
            _STATES.get(node.state, node.state),
            f"{wall:.1f}" if wall is not None else "",
            f"{memory:.0f}" if memory is not None else "",
            "\n".join(outputs),
        )
    return table

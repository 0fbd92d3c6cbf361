"""headrace diff: what differs between two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import click
from rich import box
from rich.table import Table
from rich.text import Text

from pipelines.cli import names
from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.lineage import query
from pipelines.lineage.compare import Difference, compare
from pipelines.lineage.open import record_of
from pipelines.lineage.view import view
from pipelines.workspace import Workspace

COLUMNS = tuple(Column(key) for key in ("section", "what", "before", "after"))


@click.command("diff")
@click.argument("first", metavar="RUN", shell_complete=names.runs)
@click.argument("second", metavar="RUN", shell_complete=names.runs)
@workspace_option
@output_option
def command(first: str, second: str, root: str, output: str) -> None:
    """Say what differs between two runs: data, schema, code, settings, versions; then what came of it.

    \b
    Example:
      headrace diff digits-20261130-030031 latest

    A run is its id, a unique prefix of it, or latest. Times and costs always
    differ, and are left to `headrace show`.
    """
    with record_of(Workspace.open(root)) as source:
        runs = [view(source, query.find_run(source, name)) for name in (first, second)]
    found = compare(*runs)
    if output != "table":
        show([asdict(item) for item in found], COLUMNS, output)
    elif not found:
        click.echo("Nothing differs but times and costs.")
    else:
        console().print(_table(found, *(run.run.run_id for run in runs)))


def _table(found: Sequence[Difference], first: str, second: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("", "what", first, second):
        table.add_column(column, overflow="fold")
    section = ""
    for item in found:
        heading = Text(item.section if item.section != section else "", "bold")
        table.add_row(heading, *(Text(text or "-") for text in (item.what, item.before, item.after)))
        section = item.section
    return table

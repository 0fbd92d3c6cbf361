"""headrace explain-cache: what a run would take from the cache, and why not the rest."""

from __future__ import annotations

import click
from rich import box
from rich.table import Table

from pipelines import config
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console, output_apart
from pipelines.compiling import Options
from pipelines.explaining import Verdict, explain
from pipelines.workspace import Workspace


@click.command("explain-cache")
@click.argument("experiment")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="As of headrace run; repeatable."
)
@workspace_option
def command(experiment: str, overrides: tuple[str, ...], root: str) -> None:
    """Say for each node whether a run would take it from the cache, and what has changed. Runs nothing.

    \b
    Example:
      headrace explain-cache digits --set train.epochs=5
    """
    settings = config.load(experiment, overrides)
    workspace = Workspace.open(root)
    with output_apart(workspace.runs / "headrace.log") as screen:
        verdicts = explain(
            settings, workspace, Options(), lambda: screen.print("Loading TFX (about 15 s)", highlight=False)
        )
    console().print(_table(verdicts))


def _table(verdicts: list[Verdict]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("node", "cache", "what has changed"):
        table.add_column(column, overflow="fold")
    words = {True: "[green]hit[/green]", False: "[yellow]miss[/yellow]", None: "[dim]looks up[/dim]"}
    for verdict in verdicts:
        table.add_row(verdict.node, words[verdict.hit], "\n".join(verdict.reasons))
    return table

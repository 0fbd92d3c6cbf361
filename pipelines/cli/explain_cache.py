"""headrace explain-cache: what a run would take from the cache, and why not the rest."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.console import Console

from pipelines import config
from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import output_apart
from pipelines.compiling import Options
from pipelines.explaining import explain
from pipelines.workspace import Workspace

_WORDS = {True: "hit", False: "miss", None: "looks up"}
_STYLES = {True: "green", False: "yellow", None: "dim"}

COLUMNS = (
    Column("node"),
    Column("hit", "cache", show=lambda hit: _WORDS[hit], style=lambda hit: _STYLES[hit], shows_none=True),
    Column("reasons", "what has changed", show="\n".join),
)


@click.command("explain-cache")
@click.argument("experiment")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="As of headrace run; repeatable."
)
@workspace_option
@output_option
def command(experiment: str, overrides: tuple[str, ...], root: str, output: str) -> None:
    """Say for each node whether a run would take it from the cache, and what has changed. Runs nothing.

    \b
    Example:
      headrace explain-cache digits --set train.epochs=5
    """
    settings = config.load(experiment, overrides)
    workspace = Workspace.open(root)
    with output_apart(workspace.runs / "headrace.log") as screen:
        verdicts = explain(settings, workspace, Options(), lambda: _say_that_it_loads(screen, output))
    show([asdict(verdict) for verdict in verdicts], COLUMNS, output)


def _say_that_it_loads(screen: Console, output: str) -> None:
    if output == "table":
        screen.print("Loading TFX (about 15 s)", highlight=False)

"""headrace experiments: what ships, what it needs and takes."""

from __future__ import annotations

import click
from rich import box
from rich.table import Table

from pipelines import config
from pipelines.cli.screen import console


@click.command("experiments")
def command() -> None:
    """List the experiments that ship, with what each needs and takes.

    \b
    Example:
      headrace experiments
    """
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("experiment", "what", "needs", "takes"):
        table.add_column(column, overflow="fold")
    for name in config.names():
        experiment = config.load(name)
        table.add_row(name, experiment.description, experiment.needs, experiment.takes)
    console().print(table)

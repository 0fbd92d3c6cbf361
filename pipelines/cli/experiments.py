"""headrace experiments: what ships, what it needs and takes."""

from __future__ import annotations

import click

from pipelines import config
from pipelines.cli.listing import Column, output_option, show

COLUMNS = (Column("experiment"), Column("what"), Column("needs"), Column("takes"))


@click.command("experiments")
@output_option
def command(output: str) -> None:
    """List the experiments that ship, with what each needs and takes.

    \b
    Example:
      headrace experiments
    """
    loaded = [(name, config.load(name)) for name in config.names()]
    rows = [
        {"experiment": name, "what": item.description, "needs": item.needs, "takes": item.takes}
        for name, item in loaded
    ]
    show(rows, COLUMNS, output)

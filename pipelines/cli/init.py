"""headrace init: a project folder of one's own."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from pipelines import project


@click.command("init")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "source",
    metavar="EXPERIMENT",
    default="digits",
    show_default=True,
    help="The experiment to start from: a name or a file.",
)
def command(folder: Path, source: str) -> int:
    """Make DIR, a project with an experiment, a network of your own, its test and a README.

    \b
    Examples:
      headrace init cats
      headrace init trips --from taxi

    `headrace run` works there at once. Code in the folder counts as ours does:
    a node runs again when what it uses has changed.
    """
    written = project.create(folder, source)
    for path in written:
        click.echo(f"wrote {path}")
    click.echo(f"Next: cd {shlex.quote(str(folder))} && headrace run {written[0].name}")
    return 0

"""headrace report: a run as one HTML page."""

from __future__ import annotations

import time

import click

from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.cli.places import writing
from pipelines.lineage import query
from pipelines.lineage.open import record_of
from pipelines.report.write import gather, write
from pipelines.workspace import Workspace


@click.command("report")
@click.argument("run", shell_complete=names.runs)
@click.option("-o", "output", type=click.Path(dir_okay=False), help="File to write; else reports/RUN.html.")
@workspace_option
def command(run: str, output: str | None, root: str) -> None:
    """Write RUN (an id, a unique prefix, or latest) as one HTML page.

    \b
    Example:
      headrace report latest -o report.html

    The page holds everything it shows, opens without a network, and prints:
    the chain, data, training, candidates, evaluation, mistakes, lineage and
    environment.
    """
    workspace = Workspace.open(root)
    with record_of(workspace) as source:
        gathered = gather(source, query.find_run(source, run))
    target = output or str(workspace.reports / f"{gathered.view.run.run_id}.html")
    with writing(target) as file:
        write(gathered, file, time.time())
    click.echo(target)

"""headrace models card: what a version is, for those who get it."""

from __future__ import annotations

import click

from pipelines.cards import card
from pipelines.cards.blocks import html, markdown
from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.cli.places import writing
from pipelines.handing_on import parts
from pipelines.lineage import query
from pipelines.lineage.open import record_of
from pipelines.report.write import write_page
from pipelines.workspace import Workspace


@click.command("card")
@click.argument("version", metavar="MODEL@VERSION", shell_complete=names.versions)
@click.option("-o", "target", help="File: .md, or .html for a page.")
@workspace_option
def command(version: str, target: str | None, root: str) -> None:
    """Print the model card of MODEL@VERSION as Markdown, or write it to a file.

    \b
    Examples:
      headrace models card digits@1
      headrace models card digits@latest -o card.html

    What it is, its data with their statistics, metrics of each slice with
    intervals, limits, how to use it, where it comes from: all from the record.
    Licence, intended use and known limits are those of the experiment's card.
    """
    model, number = parts(version)
    with record_of(Workspace.open(root)) as source:
        made = card.build(source, query.find_push(source, model, number))
    if target is None:
        click.echo(markdown(made), nl=False)
        return
    text = html(made) if target.endswith((".html", ".htm")) else markdown(made)
    with writing(target) as path:
        write_page(text, path)
    click.echo(target)

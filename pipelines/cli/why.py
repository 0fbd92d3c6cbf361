"""headrace why: where a pushed version comes from, in a short paragraph."""

from __future__ import annotations

import click
from rich.text import Text

from pipelines.cli import names
from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.handing_on import parts
from pipelines.lineage import explain, models, query
from pipelines.lineage.open import record_of
from pipelines.lineage.view import view
from pipelines.workspace import Workspace

COLUMNS = tuple(Column(key) for key in ("version", "run", "baseline", "why"))


@click.command("why")
@click.argument("version", metavar="MODEL@VERSION", shell_complete=names.versions)
@workspace_option
@output_option
def command(version: str, root: str, output: str) -> None:
    """Say in a paragraph why MODEL@VERSION is as it is: data, metric, candidate, who and when.

    \b
    Example:
      headrace why digits@1
      headrace why digits@latest
    """
    model, number = parts(version)
    with record_of(Workspace.open(root)) as source:
        push = query.find_push(source, model, number)
        run = view(source, query.run_of(source, push))
        baseline = models.baseline_of(source, run)
    text = explain.why(push, run, baseline)
    if output == "table":
        console().print(Text(text))
        return
    row = {"version": push.name, "run": run.run.run_id, "baseline": baseline or None, "why": text}
    show([row], COLUMNS, output)

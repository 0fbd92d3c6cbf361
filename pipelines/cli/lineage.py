"""headrace lineage: what made this, and what came of it."""

from __future__ import annotations

from typing import Any

import click

from pipelines.cli import names
from pipelines.cli.listing import Column, show
from pipelines.cli.options import workspace_option
from pipelines.lineage import query, render
from pipelines.lineage.open import record_of
from pipelines.lineage.source import Edge
from pipelines.workspace import Workspace

OUTPUTS = ("tree", "table", "json", "csv", "dot", "mermaid")

COLUMNS = tuple(Column(key) for key in ("node", "run", "does", "key", "artifact", "type", "uri"))


@click.command("lineage")
@click.argument("target", shell_complete=names.targets)
@click.option("--up", "direction", flag_value="up", help="What made it (the default, but for files).")
@click.option("--down", "direction", flag_value="down", help="What came of it (the default for files).")
@click.option("--depth", type=click.IntRange(1), help="At most so many executions in a row.")
@click.option(
    "--output",
    type=click.Choice(OUTPUTS),
    default="tree",
    envvar="HEADRACE_OUTPUT",
    show_default="tree, or HEADRACE_OUTPUT",
    help="tree or table to read, json or csv to process, dot for Graphviz, mermaid for Markdown.",
)
@workspace_option
def command(
    target: str, direction: query.Direction | None, depth: int | None, output: str, root: str
) -> None:
    """Show where TARGET comes from, or what came of it.

    \b
    Examples:
      headrace lineage digits@1
      headrace lineage data/2026-11-30.csv --down
      headrace lineage latest --depth 2
      headrace lineage artifact:12 --output dot | dot -Tsvg > lineage.svg

    TARGET is a pushed version (digits@1, digits@latest), a run (its id, a
    unique prefix, or latest), artifact:ID, or the path of an input file or of
    a folder of input files.
    """
    with record_of(Workspace.open(root)) as source:
        found = query.resolve(source, target)
        wanted = direction or ("down" if found.kind == "file" else "up")
        lineage = query.follow(source, found, wanted, depth)
    if output in render.FORMATS:
        click.echo(render.FORMATS[output](lineage))
    else:
        show([_row(lineage, edge) for edge in lineage.edges], COLUMNS, output)


def _row(lineage: query.Lineage, edge: Edge) -> dict[str, Any]:
    """One reading or writing."""
    execution, artifact = lineage.executions[edge.execution], lineage.artifacts[edge.artifact]
    return {
        "node": execution.node,
        "run": execution.run_id,
        "does": "reads" if edge.reads else "writes",
        "key": edge.key,
        "artifact": artifact.id,
        "type": artifact.type,
        "uri": artifact.uri,
    }

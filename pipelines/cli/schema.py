"""headrace schema: write, compare and update a curated schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pipelines import schemas
from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.lineage.store import NodeRecord, Store
from pipelines.workspace import Workspace


@click.group("schema")
def command() -> None:
    """Write, compare and update the schema that data must fit.

    \b
    Example:
      headrace run taxi --to DataGate
      headrace schema init latest -o taxi.pbtxt      # then edit it
      headrace run taxi --set validation.schema_file=taxi.pbtxt
    """


@command.command("init")
@click.argument("run", shell_complete=names.runs)
@click.option("-o", "--output", default="schema.pbtxt", show_default=True, type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@workspace_option
def init(run: str, output: Path, force: bool, root: str) -> int:
    """Write the schema that RUN inferred or used.

    \b
    Example:
      headrace schema init latest -o schema.pbtxt
    """
    if output.exists() and not force:
        raise click.UsageError(f"{output} is there already; --force writes over it.")
    schemas.write(schemas.schema_text(_nodes(root, run)), output)
    click.echo(f"Wrote {output}. Use it with --set validation.schema_file={output}")
    return 0


@command.command("diff")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("run", shell_complete=names.runs)
@workspace_option
def diff(file: Path, run: str, root: str) -> int:
    """Show how FILE differs from the schema that RUN inferred or used.

    \b
    Example:
      headrace schema diff schema.pbtxt latest
    """
    schemas.read(file)
    lines = schemas.differences(file.read_text(), schemas.schema_text(_nodes(root, run)), str(file), run)
    click.echo("\n".join(lines) if lines else "No difference.")
    return 0


@command.command("accept")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("run", shell_complete=names.runs)
@workspace_option
def accept(file: Path, run: str, root: str) -> int:
    """Widen FILE until the data of RUN fits it, and show what changed.

    \b
    Example:
      headrace schema accept schema.pbtxt latest
    """
    lines = schemas.accept(file, _nodes(root, run))
    click.echo("\n".join(lines) if lines else "The data fits already; nothing changed.")
    return 0


def _nodes(root: str, run: str) -> Sequence[NodeRecord]:
    with Store(Workspace.open(root).database) as store:
        return store.nodes(store.find_run(run).run_id)

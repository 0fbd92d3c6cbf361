"""headrace schema: write, compare and update a curated schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from pipelines import remote, schemas
from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.cli.places import InputPath, writing
from pipelines.lineage.records import NodeRecord
from pipelines.lineage.store import Store
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
@click.option("-o", "--output", default="schema.pbtxt", show_default=True, metavar="FILE")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@workspace_option
def init(run: str, output: str, force: bool, root: str) -> int:
    """Write the schema that RUN inferred or used.

    \b
    Example:
      headrace schema init latest -o schema.pbtxt
    """
    there = remote.is_there(output) if remote.is_remote(output) else Path(output).exists()
    if there and not force:
        raise click.UsageError(f"{output} is there already; --force writes over it.")
    with writing(output) as path:
        schemas.write(schemas.schema_text(_nodes(root, run)), path)
    click.echo(f"Wrote {output}. Use it with --set validation.schema_file={output}")
    return 0


@command.command("diff")
@click.argument("file", type=InputPath())
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

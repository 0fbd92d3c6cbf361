"""headrace models: pushed models and their versions, listed or pruned."""

from __future__ import annotations

from typing import Any

import click
from rich import box
from rich.table import Table

from pipelines.cli import prune
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.lineage import models, query
from pipelines.lineage.open import record_of
from pipelines.lineage.render import clock
from pipelines.workspace import Workspace

_STYLES = {"serving": "green", "kept": "", "withdrawn": "yellow", "removed": "dim"}


class _ListByDefault(click.Group):
    """`headrace models [MODEL]` is `headrace models list [MODEL]`."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        return super().resolve_command(ctx, args if args[0] in self.commands else ["list", *args])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_for_help = any(name in args for name in ctx.help_option_names)
        if not args or (args[0] not in self.commands and not asks_for_help):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("models", cls=_ListByDefault)
def command() -> None:
    """List pushed versions of MODEL, or of all models; remove old ones.

    \b
    Examples:
      headrace models
      headrace models digits --limit 5
      headrace models prune digits --keep 3
    """


command.add_command(prune.command)


@command.command("list")
@click.argument("model", required=False)
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many versions."
)
@workspace_option
def list_versions(model: str | None, limit: int, root: str) -> None:
    """List pushed versions of MODEL, or of all models, newest first: state, accuracy, size, run.

    \b
    Example:
      headrace models list
      headrace models list digits --limit 5

    A server takes the highest version in the serving root (serving); lower ones
    are kept until they are pruned, and a rollback withdraws those above it.
    """
    with record_of(Workspace.open(root)) as source:
        if model is not None:
            query.find_push(source, model, "latest")
        found = models.versions(source, model, limit)
    if not found:
        click.echo("No model has been pushed in this workspace yet.")
        return
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("model", "version", "state", "accuracy", "size kB", "pushed", "run"):
        right = column in ("version", "accuracy", "size kB")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    for version in found:
        table.add_row(*_row(version))
    console().print(table)


def _row(version: models.Version) -> tuple[str, ...]:
    style = _STYLES[version.state]
    return (
        version.push.model,
        str(version.push.version),
        f"[{style}]{version.state}[/{style}]" if style else version.state,
        f"{version.accuracy:.4f}" if version.accuracy is not None else "",
        f"{version.bytes / 1000:.0f}" if version.bytes is not None else "",
        clock(version.push.at),
        version.run_id,
    )

"""headrace models: pushed models and their versions, listed or pruned."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from pipelines.cli import card, export, names, prune, signing
from pipelines.cli.groups import default_to
from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option
from pipelines.lineage import models, query
from pipelines.lineage.open import record_of
from pipelines.workspace import Workspace

_STYLES = {"serving": "green", "kept": "", "withdrawn": "yellow", "removed": "dim"}

COLUMNS = (
    Column("model"),
    Column("version", right=True),
    Column("state", style=lambda state: _STYLES[state]),
    Column("accuracy", right=True, show=lambda value: f"{value:.4f}"),
    Column("bytes", "size kB", right=True, show=lambda value: f"{value / 1000:.0f}"),
    Column("pushed", show=lambda iso: f"{datetime.fromisoformat(iso):%Y-%m-%d %H:%M:%S}"),
    Column("run"),
)


@click.group("models", cls=default_to("list"))
def command() -> None:
    """List pushed versions of MODEL, or of all models; remove, describe, sign and export them.

    \b
    Examples:
      headrace models
      headrace models digits --limit 5
      headrace models prune digits --keep 3
      headrace models card digits@latest
    """


for _command in (prune.command, card.command, signing.sign, signing.verify, export.command):
    command.add_command(_command)


@command.command("list")
@click.argument("model", required=False, shell_complete=names.models)
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="At most so many versions."
)
@workspace_option
@output_option
def list_versions(model: str | None, limit: int, root: str, output: str) -> None:
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
    rows = [_row(version) for version in found]
    show(rows, COLUMNS, output, empty="No model has been pushed in this workspace yet.")


def _row(version: models.Version) -> dict[str, Any]:
    return {
        "model": version.push.model,
        "version": version.push.version,
        "state": version.state,
        "accuracy": version.accuracy,
        "bytes": version.bytes,
        "pushed": datetime.fromtimestamp(version.push.at).astimezone().isoformat(timespec="seconds"),
        "run": version.run_id,
    }

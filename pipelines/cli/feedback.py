"""headrace feedback: labelled outcomes of a model in service."""

from __future__ import annotations

import time
from pathlib import Path

import click

from components.serving_pusher import root as serving_root
from pipelines import operations
from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.cli.places import InputPath
from pipelines.errors import NotFoundError
from pipelines.retraining import feedback
from pipelines.workspace import Workspace


@click.command("feedback")
@click.argument("model", shell_complete=names.models)
@click.argument("file", type=InputPath(dir_okay=False))
@click.option("--version", type=click.IntRange(1), help="Of outcomes that name none; the one in service.")
@workspace_option
def command(model: str, file: Path, version: int | None, root: str) -> None:
    """Add the outcomes in FILE: what MODEL answered, and what was true.

    \b
    Example:
      headrace feedback digits outcomes.csv

    FILE is CSV with a heading, or JSON Lines: prediction, label, and where they
    are known version and at (seconds since the epoch). With retraining.live a
    round begins where too many were wrong.
    """
    workspace = Workspace.open(root)
    folder = operations.root_of(workspace, model)
    of = version or serving_root.in_service(folder)
    if of is None:
        raise NotFoundError("No version is in service", place=str(folder), remedy="Name one with --version.")
    count = feedback.add(workspace, model, file, of, time.time())
    correct, total = feedback.recent(workspace, model, of, 10**9)
    click.echo(
        f"{count} outcomes added; of {total} of version {of}, {correct / max(total, 1):.1%} were right"
    )

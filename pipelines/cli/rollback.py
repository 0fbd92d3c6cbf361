"""headrace rollback: another version of a model into service, without deleting any."""

from __future__ import annotations

import time

import click

from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.workspace import Workspace


@click.command("rollback")
@click.argument("model", shell_complete=names.models)
@workspace_option
@click.option("--to", "version", type=click.IntRange(1), help="The version; by default the next older one.")
@click.option("--reason", default="", help="Why, in words; recorded.")
@click.option("--force", is_flag=True, help="Also a version that was withdrawn since it answered wrongly.")
@click.option(
    "--server", metavar="URL", help="REST address of a server; waits until it serves the version by default."
)
@click.option(
    "--timeout", default=30.0, show_default=True, metavar="SECONDS", help="How long --server is waited for."
)
def command(
    model: str, root: str, version: int | None, reason: str, force: bool, server: str | None, timeout: float
) -> None:
    """Put an older version of MODEL in service, or a newer one again.

    \b
    Examples:
      headrace rollback digits
      headrace rollback digits --to 3 --reason "5 is slow" --server http://127.0.0.1:8501

    Newer versions are moved to .withdrawn/ beside the others, where servers do
    not look; a server that watches the folder changes over without a failed
    request. Naming a withdrawn version with --to undoes it.
    """
    from components.serving.client import ModelClient
    from pipelines import operations

    workspace = Workspace.open(root)
    done = operations.roll_back(workspace, model, version, reason, time.time(), force=force)
    change, screen = done.change, console()
    if done.execution_id is None:
        screen.print(f"Version {change.after} of {model} is in service already", highlight=False)
    else:
        screen.print(
            f"In service  version {change.after} of {model}, instead of {change.before}", highlight=False
        )
    for word, numbers in (("Withdrawn", change.withdrawn), ("Restored ", change.restored)):
        if numbers:
            screen.print(f"{word}   {', '.join(map(str, numbers))}", highlight=False)
    if done.execution_id is not None:
        screen.print(f"Recorded    as execution {done.execution_id}", highlight=False)
    if server:
        operations.wait_until_served(
            ModelClient.at(server), model, change.after, timeout, time.monotonic, time.sleep
        )
        screen.print(f"Served      by {server}", highlight=False)

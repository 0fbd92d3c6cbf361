"""headrace models prune: old versions of a model removed for good."""

from __future__ import annotations

import time

import click

from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.workspace import Workspace


@click.command("prune")
@click.argument("model", shell_complete=names.models)
@workspace_option
@click.option("--keep", type=click.IntRange(1), required=True, help="So many versions stay.")
@click.option("--yes", is_flag=True, help="Remove them; without this it is only said which.")
@click.option("--server", metavar="URL", help="REST address of a server; what it has loaded stays.")
def command(model: str, root: str, keep: int, yes: bool, server: str | None) -> None:
    """Remove all but the newest versions of MODEL, withdrawn ones included.

    \b
    Example:
      headrace models prune digits --keep 3          # says what would go
      headrace models prune digits --keep 3 --yes

    The version in service always stays, as one of --keep. Their numbers are
    never given again.
    """
    from components.serving.client import ModelClient
    from pipelines import operations

    workspace = Workspace.open(root)
    served = operations.served_versions(ModelClient.at(server), model) if server else ()
    plan = operations.plan_prune(workspace, model, keep, served)
    screen = console()
    kept = ", ".join(map(str, plan.kept)) or "none"
    screen.print(f"In service  {plan.in_service or 'none'}\nStay        {kept}", highlight=False)
    if not plan.removed:
        screen.print("Nothing is to be removed")
        return
    numbers = ", ".join(map(str, plan.removed))
    if not yes:
        screen.print(f"Would go    {numbers}; with --yes they do", highlight=False)
        return
    execution = operations.prune(workspace, model, plan, time.time())
    screen.print(f"Removed     {numbers}; recorded as execution {execution}", highlight=False)

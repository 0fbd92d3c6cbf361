"""headrace data: look at data before anything is trained on it."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pipelines import config
from pipelines.cli.options import workspace_option
from pipelines.cli.run import run_experiment
from pipelines.run import Options
from pipelines.workspace import Workspace


@click.group("data")
def command() -> None:
    """Look at data before anything is trained on it.

    \b
    Example:
      headrace data check photos/
    """


@command.command("check")
@click.argument("path")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="As of headrace run; repeatable."
)
@workspace_option
def check(path: str, overrides: tuple[str, ...], root: str) -> int:
    """Read PATH, take statistics and look for anomalies; nothing is trained.

    \b
    Examples:
      headrace data check photos/
      headrace data check trips.csv --set model.family=tabular --set data.label=big_tip
    """
    settings = config.from_mapping({"name": _name(path), "data": {"path": path}}, overrides)
    workspace = Workspace.open(root, create=True)
    return run_experiment(settings, workspace, Options(to_node="DataGate"), root)


def _name(path: str) -> str:
    """A name for the check's own history, from the path."""
    return ("check-" + re.sub(r"[^a-z0-9]+", "-", Path(path).stem.lower()).strip("-"))[:40].rstrip("-")

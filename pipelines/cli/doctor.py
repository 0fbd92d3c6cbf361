"""headrace doctor: what this installation stands on, and what it lacks."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option

_STYLES = {"ok": "green", "warning": "yellow", "missing": "red"}

COLUMNS = (
    Column("name", "what"),
    Column("state", style=lambda state: _STYLES[state]),
    Column("found"),
    Column("cost"),
    Column("remedy"),
)


@click.command("doctor")
@workspace_option
@output_option
def command(root: str, output: str) -> int:
    """Look at Python, packages, CPU, GPU, disk, workspace and servers; say what each lack costs.

    \b
    Example:
      headrace doctor

    Exits 1 where something is missing without which runs fail.
    """
    from pipelines import doctor

    found = doctor.examine(Path(root).expanduser().absolute())
    show([asdict(finding) for finding in found], COLUMNS, output)
    return int(any(finding.state == "missing" for finding in found))

"""headrace models export: a version as a file or a folder to hand on."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines import handing_on
from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.workspace import Workspace

ZIP, HUGGING_FACE = "zip", "huggingface"


@click.command("export")
@click.argument("version", metavar="MODEL@VERSION", shell_complete=names.versions)
@click.option(
    "--format",
    "layout",
    type=click.Choice([ZIP, HUGGING_FACE]),
    default=ZIP,
    show_default=True,
    help="zip: one file. huggingface: a folder as the Hub's repositories are.",
)
@click.option("-o", "target", type=click.Path(path_type=Path), help="Where; else MODEL-VERSION[.zip].")
@workspace_option
def command(version: str, layout: str, target: Path | None, root: str) -> None:
    """Export MODEL@VERSION with its card, as a zip or in the layout of the Hugging Face Hub.

    \b
    Examples:
      headrace models export digits@latest -o digits.zip
      headrace models export digits@1 --format huggingface -o hub/

    The unpacked zip holds a serving root: headrace serve and TensorFlow Serving
    take it as it is, and its signature stays with it. A folder for the Hub holds
    more than was signed; headrace models sign signs it anew.
    """
    workspace = Workspace.open(root)
    found = handing_on.find(workspace, version)
    stem = f"{found.model}-{found.number}"
    if layout == ZIP:
        written = target or Path(f"{stem}.zip")
        handing_on.export_zip(workspace, found.name, written)
    else:
        written = target or Path(stem)
        handing_on.export_hugging_face(workspace, found.name, written)
    click.echo(str(written))

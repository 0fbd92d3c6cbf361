"""headrace models export: a version as a file or a folder to hand on."""

from __future__ import annotations

import click

from pipelines import handing_on
from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.cli.places import writing
from pipelines.workspace import Workspace

_LAYOUTS = {"zip": (handing_on.export_zip, ".zip"), "huggingface": (handing_on.export_hugging_face, "")}
"""Layout -> what writes it, and the ending of its name."""


@click.command("export")
@click.argument("version", metavar="MODEL@VERSION", shell_complete=names.versions)
@click.option(
    "--format",
    "layout",
    type=click.Choice(sorted(_LAYOUTS)),
    default="zip",
    show_default=True,
    help="zip: one file. huggingface: a folder as the Hub's repositories are.",
)
@click.option("-o", "target", help="Where; else MODEL-VERSION[.zip].")
@workspace_option
def command(version: str, layout: str, target: str | None, root: str) -> None:
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
    export, default = _LAYOUTS[layout]
    target = target or f"{stem}{default}"
    with writing(target) as path:
        export(workspace, found.name, path)
    click.echo(target)

"""headrace models sign and verify: who made the files of a version what they are."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines import handing_on
from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.workspace import Workspace


@click.command("sign")
@click.argument("target", metavar="MODEL@VERSION|FOLDER", shell_complete=names.versions)
@click.option("--key", required=True, type=click.Path(path_type=Path), help="Private key, PEM.")
@workspace_option
def sign(target: str, key: Path, root: str) -> None:
    """Sign all files of a pushed version, or of an exported folder, with a key of your own.

    \b
    Examples:
      headrace models sign digits@latest --key key.pem
      headrace models sign hub/ --key key.pem

    The signature is model.sig in the folder, in OpenSSF's format; copies of the
    version elsewhere get it too. The password of the key, where it has one, is
    taken from HEADRACE_SIGNING_PASSWORD. Needs the extra signing.
    """
    if handing_on.is_version(target):
        done = handing_on.sign(Workspace.open(root), target, key)
    else:
        done = handing_on.sign_folder(Path(target), key)
    for line in done:
        click.echo(line)


@click.command("verify")
@click.argument("target", metavar="MODEL@VERSION|FOLDER", shell_complete=names.versions)
@click.option("--key", required=True, type=click.Path(path_type=Path), help="Public key, PEM.")
@workspace_option
def verify(target: str, key: Path, root: str) -> None:
    """Check that a version, or a folder, is as it was signed with a key.

    \b
    Example:
      headrace models verify digits@latest --key key.pub

    Exits 1 where it is not signed, not by that key, or any file was changed,
    added or removed since.
    """
    folder = Path(target)
    if handing_on.is_version(target):
        folder = handing_on.find(Workspace.open(root), target).folder
    handing_on.verify(folder, key)
    click.echo(f"As it was signed: {folder}")

"""headrace completion: what a shell needs to complete commands and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pipelines.errors import HeadraceError

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
      headrace completion bash > ~/.local/share/bash-completion/completions/headrace
      headrace completion zsh > "${fpath[1]}/_headrace"
      headrace completion fish > ~/.config/fish/completions/headrace.fish

    Commands, options, and the names of experiments, runs and models are completed.
    """
    from pipelines.cli.main import cli

    kind = get_completion_class(shell)
    if kind is None:
        raise HeadraceError(f"This version of click completes nothing in {shell}")
    click.echo(kind(cli, {}, "headrace", "_HEADRACE_COMPLETE").source())

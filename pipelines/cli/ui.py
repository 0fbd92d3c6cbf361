"""headrace ui: pages over the workspace."""

from __future__ import annotations

import socket

import click

from pipelines.cli.options import workspace_option
from pipelines.errors import ConfigError
from pipelines.workspace import Workspace

_LOOPBACK = "127.0.0.1"


@click.command("ui")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8600, show_default=True, help="0: any free one."
)
@click.option("--host", help="Address to listen on instead of this machine's own, 127.0.0.1.")
@workspace_option
def command(port: int, host: str | None, root: str) -> None:
    """Serve pages on runs, models and lineage, read-only, on this machine alone.

    \b
    Example:
      headrace ui
      headrace ui --port 0 --workspace elsewhere

    With --host others can read everything that is recorded: there is no log-in.
    """
    import uvicorn

    from pipelines.ui.app import LOOPBACK, make_app

    workspace = Workspace.open(root)
    app = make_app(workspace, LOOPBACK if host in (None, *LOOPBACK) else ("*",))
    listening = _listen(host or _LOOPBACK, port)
    address = listening.getsockname()
    place = f"[{address[0]}]" if ":" in address[0] else address[0]
    click.echo(f"http://{place}:{address[1]}  (Ctrl-C ends it)")
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(
            f"It cannot listen there: {error.strerror or error}",
            place=f"{host}:{port}",
            remedy="Name another --port; 0 takes any that is free.",
        ) from error

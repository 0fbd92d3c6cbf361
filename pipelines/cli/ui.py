"""headrace ui: pages over the workspace."""

from __future__ import annotations

import socket
import time

import click

from pipelines.cli.options import workspace_option
from pipelines.cli.watch import TEXT, lines, log_format_option
from pipelines.errors import ConfigError
from pipelines.workspace import Workspace

_LOOPBACK = "127.0.0.1"


@click.command("ui")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8600, show_default=True, help="0: any free one."
)
@click.option("--host", help="Address to listen on instead of this machine's own, 127.0.0.1.")
@workspace_option
@log_format_option
def command(port: int, host: str | None, root: str, log_format: str) -> None:
    """Serve pages on runs, models and lineage, read-only, on this machine alone.

    \b
    Example:
      headrace ui
      headrace ui --port 0 --workspace elsewhere

    With --host others can read everything that is recorded: there is no log-in.
    """
    import uvicorn

    from components import logs
    from pipelines.telemetry.notices import Notice
    from pipelines.ui.app import LOOPBACK, make_app

    workspace = Workspace.open(root)
    app = make_app(workspace, LOOPBACK if host in (None, *LOOPBACK) else ("*",))
    listening = _listen(host or _LOOPBACK, port)
    address = listening.getsockname()
    place = f"[{address[0]}]" if ":" in address[0] else address[0]
    url = f"http://{place}:{address[1]}"
    config = uvicorn.Config(app, log_level="warning")
    if log_format == TEXT:
        click.echo(f"{url}  (Ctrl-C ends it)")
    else:
        logs.write_json_logs()
        config = uvicorn.Config(app, log_level="info", log_config=None)
        with lines(log_format) as tell:
            tell(Notice("ui.listening", url, time.time(), facts={"url": url}))
    uvicorn.Server(config).run(sockets=[listening])


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

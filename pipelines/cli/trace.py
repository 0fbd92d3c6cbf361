"""headrace trace: which version was serving at a time."""

from __future__ import annotations

from datetime import datetime

import click

from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option
from pipelines.errors import NotFoundError
from pipelines.lineage import query, times
from pipelines.lineage.open import record_of
from pipelines.lineage.render import clock
from pipelines.workspace import Workspace

COLUMNS = tuple(Column(key) for key in ("version", "run", "since", "until", "how", "reason"))


@click.command("trace")
@click.option(
    "--model", required=True, metavar="NAME", help="The model's name, as its serving root is called."
)
@click.option(
    "--at", "when", required=True, metavar="TIME", help="2026-11-30, '2026-11-30 14:05', '3 hours ago'."
)
@workspace_option
@output_option
def command(model: str, when: str, root: str, output: str) -> None:
    """Say which version of a model was serving at a time, and which run had made it.

    \b
    Example:
      headrace trace --model digits --at "2026-11-30 14:05"

    Times are local unless they name a zone (2026-11-30T14:05Z). A server takes
    the highest version that has been pushed and not been rolled back.
    """
    at = times.parse(when, datetime.now())
    with record_of(Workspace.open(root)) as source:
        pushes = source.pushes_around(model, at)
        if not pushes:
            query.find_push(source, model, "latest")
        history = query.services(pushes, source.switches(model))
        serving, replaced = query.serving_at(history, at)
        if serving is None:
            raise NotFoundError(
                f"No version of {model!r} had been pushed by {clock(at)}",
                place=f"the first was pushed at {clock(replaced.since)}" if replaced else "",
            )
        run_id = query.run_of(source, query.find_push(source, model, str(serving.version))).run_id
    name = f"{model}@{serving.version}"
    if output != "table":
        until = _iso(replaced.since) if replaced else None
        row = {"version": name, "run": run_id, "since": _iso(serving.since), "until": until}
        show([{**row, "how": serving.how, "reason": serving.reason or None}], COLUMNS, output)
        return
    click.echo(f"{name}, made by run {run_id}")
    click.echo(f"since  {clock(serving.since)}, when it was {_how(serving)}")
    click.echo(f"until  {_end(model, replaced)}")
    click.echo(f"next   headrace why {name}")


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")


def _how(service: query.Service) -> str:
    return f"{service.how} ({service.reason})" if service.reason else service.how


def _end(model: str, replaced: query.Service | None) -> str:
    if replaced is None:
        return "now"
    return f"{clock(replaced.since)}, when {model}@{replaced.version} was {_how(replaced)}"

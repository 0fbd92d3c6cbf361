"""headrace schedule: recurring runs on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.submit import compiled, endpoint_options
from pipelines.errors import ConfigError

if TYPE_CHECKING:
    from pipelines.runners.kfp_client import Cluster


COLUMNS = tuple(Column(key) for key in ("name", "state", "cron", "id"))


@click.group("schedule")
def command() -> None:
    """Recurring runs.

    \b
    Example:
      headrace schedule kfp digits --cron "0 3 * * *" --endpoint http://localhost:8080
    """


@command.command("kfp")
@click.argument("experiment", required=False)
@endpoint_options
@click.option("--cron", metavar="EXPRESSION", help="Minute, hour, day, month, weekday; UTC.")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one value; repeatable."
)
@click.option("--name", metavar="NAME", help="Of the recurring run; EXPERIMENT by default.")
@click.option("--list", "listing", is_flag=True, help="List recurring runs.")
@click.option("--pause", metavar="NAME|ID", help="Pause one.")
@click.option("--resume", metavar="NAME|ID", help="Go on with one.")
@click.option("--delete", "deleting", metavar="NAME|ID", help="Delete one; runs it made stay.")
@output_option
def kfp(
    experiment: str | None,
    endpoint: str,
    kfp_experiment: str | None,
    namespace: str | None,
    cron: str | None,
    overrides: tuple[str, ...],
    name: str | None,
    listing: bool,
    pause: str | None,
    resume: str | None,
    deleting: str | None,
    output: str,
) -> int:
    """Make, list, pause and delete recurring runs on Kubeflow Pipelines.

    \b
    Examples:
      headrace schedule kfp digits --cron "0 3 * * *" --endpoint URL
      headrace schedule kfp --list --endpoint URL
      headrace schedule kfp --pause digits --endpoint URL

    Each run reads the newest span there is when it begins.
    """
    from pipelines.runners import kfp_client

    asked = [listing, pause, resume, deleting, experiment]
    if sum(bool(item) for item in asked) != 1:
        raise ConfigError(
            "Expected one of EXPERIMENT with --cron, --list, --pause, --resume and --delete",
            place="headrace schedule kfp",
        )
    if experiment and not cron:
        raise ConfigError(
            "A recurring run needs to know when", place="--cron", remedy='For example --cron "0 3 * * *".'
        )
    if cron:
        kfp_client.cron_of(cron)
    with kfp_client.cluster(endpoint, namespace) as kubeflow:
        if experiment and cron:
            settings, text = compiled(experiment, overrides)
            group = kfp_experiment or settings.name
            made = kubeflow.schedule(text, name or settings.name, experiment=group, cron=cron)
            click.echo(f"Recurring   {made.name} ({made.id}): {made.cron}")
        elif listing:
            _list(kubeflow, output)
        else:
            _change(kubeflow, pause=pause, resume=resume, delete=deleting)
    return 0


def _list(kubeflow: Cluster, output: str) -> None:
    rows = [
        {"name": item.name, "state": "on" if item.enabled else "paused", "cron": item.cron, "id": item.id}
        for item in kubeflow.recurring()
    ]
    show(rows, COLUMNS, output, empty="Nothing recurs there.")


def _change(kubeflow: Cluster, **wanted: str | None) -> None:
    """Does the one thing that is asked, by the name of the client's method."""
    done = {"pause": "paused", "resume": "on again", "delete": "deleted"}
    for action, name in wanted.items():
        if name:
            item = kubeflow.find(name)
            getattr(kubeflow, action)(item)
            click.echo(f"Recurring   {item.name} ({item.id}): {done[action]}")

"""headrace data: look at data before anything is trained on it."""

from __future__ import annotations

import re
import time
from pathlib import Path

import click

from pipelines import config
from pipelines.cli.options import workspace_option
from pipelines.cli.run import run_experiment
from pipelines.cli.screen import console
from pipelines.cli.watch import Watch, watch_options
from pipelines.errors import NotFoundError
from pipelines.lineage import query
from pipelines.lineage.open import record_of
from pipelines.lineage.view import view
from pipelines.report import data, statistics
from pipelines.report.features import features
from pipelines.report.write import write_page
from pipelines.run import Options
from pipelines.workspace import Workspace


@click.group("data")
def command() -> None:
    """Look at data before anything is trained on it.

    \b
    Example:
      headrace data check photos/
      headrace data stats latest
    """


@command.command("check")
@click.argument("path", metavar="PATH|EXPERIMENT.yaml")
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="As of headrace run; repeatable."
)
@workspace_option
@watch_options
def check(path: str, overrides: tuple[str, ...], root: str, watch: Watch) -> int:
    """Read PATH, or the data of an experiment's file; take statistics and look for anomalies.

    Nothing is trained.

    \b
    Examples:
      headrace data check photos/
      headrace data check cats.yaml
      headrace data check trips.csv --set model.family=tabular --set data.label=big_tip
    """
    if path.endswith((".yaml", ".yml")):
        settings = config.load(path, overrides)
    else:
        settings = config.from_mapping({"name": _name(path), "data": {"path": path}}, overrides)
    workspace = Workspace.open(root, create=True)
    code = run_experiment(settings, workspace, Options(to_node="DataGate"), root, watch)
    _print_anomalies(workspace)
    return code


def _print_anomalies(workspace: Workspace) -> None:
    """Of the latest run, which went through: those of kinds that stop nothing, or none."""
    with record_of(workspace) as source:
        seen = view(source, query.find_run(source, "latest"))
    found = [f"{item.feature} ({item.split}): {item.text}" for item in data.anomalies(seen)]
    for number, text in enumerate(found or ["none"]):
        console().print(f"{'' if number else 'Anomalies':<12}{text}", highlight=False, soft_wrap=True)


@command.command("stats")
@click.argument("run")
@click.option(
    "-o", "output", type=click.Path(dir_okay=False), help="File to write; else reports/RUN-stats.html."
)
@workspace_option
def stats(run: str, output: str | None, root: str) -> None:
    """Write the statistics of RUN's data as one HTML page, which opens without a network.

    \b
    Examples:
      headrace data stats latest
      headrace data stats taxi-2026 -o taxi.html

    Of every feature the splits stand side by side: missing values, histogram,
    quantiles, most frequent values.
    """
    workspace = Workspace.open(root)
    with record_of(workspace) as source:
        seen = view(source, query.find_run(source, run))
    found = features(seen)
    run_id = seen.run.run_id
    if not found:
        raise NotFoundError(
            "The run has no statistics",
            place=run_id,
            remedy="StatisticsGen must have run: headrace run ... --to DataGate.",
        )
    target = Path(output) if output else workspace.reports / f"{run_id}-stats.html"
    write_page(statistics.page(run_id, found, made_at=time.time()), target)
    click.echo(str(target))


def _name(path: str) -> str:
    """A name for the check's own history, from the path."""
    return ("check-" + re.sub(r"[^a-z0-9]+", "-", Path(path).stem.lower()).strip("-"))[:40].rstrip("-")

"""headrace data: look at data before anything is trained on it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pipelines import config
from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option
from pipelines.cli.places import writing
from pipelines.cli.run import run_experiment
from pipelines.cli.screen import console
from pipelines.cli.watch import Watch, watch_options
from pipelines.errors import NotFoundError
from pipelines.lineage import query
from pipelines.lineage.open import record_of
from pipelines.lineage.view import view
from pipelines.report import data, statistics
from pipelines.report.features import FIGURES, Feature, features
from pipelines.report.write import write_page
from pipelines.run import Options
from pipelines.workspace import Workspace

COLUMNS = tuple(Column(key) for key in ("feature", "split", "kind", "examples", "missing", *FIGURES, "top"))
"""Of `data stats`."""

ANOMALIES = tuple(Column(key) for key in ("split", "feature", "anomaly"))
"""Of `data check`."""


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
@output_option
def check(path: str, overrides: tuple[str, ...], root: str, watch: Watch, output: str) -> int:
    """Read PATH, or the data of an experiment's file; take statistics and look for anomalies.

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
    quiet, began = output != "table", time.time()
    try:
        return run_experiment(settings, workspace, Options(to_node="DataGate"), root, watch, quiet=quiet)
    finally:
        rows = _anomalies(workspace, settings.name, began)
        if quiet and rows is not None:  # of a run that the gate has stopped, too
            show(rows, ANOMALIES, output)
        elif rows is not None and sys.exc_info()[0] is None:
            _print_anomalies(rows)


def _anomalies(workspace: Workspace, experiment: str, since: float) -> list[dict[str, Any]] | None:
    """Those of the run of an experiment that began since then; None where none has."""
    if not workspace.database.is_there():
        return None
    with record_of(workspace) as source:
        runs = [run for run in source.find_runs(experiment, "", 1) if run.started >= since]
        if not runs:
            return None
        found = data.anomalies(view(source, runs[0]))
    return [{"split": item.split, "feature": item.feature, "anomaly": item.text} for item in found]


def _print_anomalies(rows: Sequence[Mapping[str, Any]]) -> None:
    """Of a run that went through: those of kinds that stop nothing, or none."""
    found = [f"{row['feature']} ({row['split']}): {row['anomaly']}" for row in rows]
    for number, text in enumerate(found or ["none"]):
        console().print(f"{'' if number else 'Anomalies':<12}{text}", highlight=False, soft_wrap=True)


@command.command("stats")
@click.argument("run")
@click.option(
    "-o", "file", type=click.Path(dir_okay=False), help="File to write; else reports/RUN-stats.html."
)
@workspace_option
@output_option
def stats(run: str, file: str | None, root: str, output: str) -> None:
    """Write the statistics of RUN's data as one HTML page, which opens without a network.

    \b
    Examples:
      headrace data stats latest
      headrace data stats taxi-2026 -o taxi.html
      headrace data stats latest --output csv

    Of every feature the splits stand side by side: missing values, histogram,
    quantiles, most frequent values. With --output json or csv they are printed,
    and the page is written only where -o names it.
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
    if file or output == "table":
        target = file or str(workspace.reports / f"{run_id}-stats.html")
        with writing(target) as path:
            write_page(statistics.page(run_id, found, made_at=time.time()), path)
    if output == "table":
        click.echo(target)
    else:
        show(_rows(found), COLUMNS, output)


def _rows(found: Sequence[Feature]) -> list[dict[str, Any]]:
    """One per feature and split."""
    return [
        {
            "feature": feature.name,
            "split": name,
            "kind": feature.kind,
            "examples": split.examples,
            "missing": split.missing,
            **{figure: split.figures.get(figure) for figure in FIGURES},
            "top": dict(split.top),
        }
        for feature in found
        for name, split in feature.splits.items()
    ]


def _name(path: str) -> str:
    """A name for the check's own history, from the path."""
    return ("check-" + re.sub(r"[^a-z0-9]+", "-", Path(path).stem.lower()).strip("-"))[:40].rstrip("-")

"""headrace cost: what nodes cost, over runs."""

from __future__ import annotations

import time
from dataclasses import asdict

import click
from rich import box
from rich.table import Table

from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.numbers import Number
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.lineage.cost import By, Cost, costs
from pipelines.lineage.open import record_of
from pipelines.workspace import Workspace

_DAY_S = 86_400.0
_EVERY_RUN = 1 << 30

_KEYS = ("name", "executed", "cached", "wall_s", "cpu_s", "peak_memory_mb", "bytes", "unknown")
COLUMNS = tuple(Column(key) for key in _KEYS)


@click.command("cost")
@click.option("--by", type=click.Choice(("node", "experiment", "day")), default="node", show_default=True)
@click.option("--runs", type=click.IntRange(1), default=_EVERY_RUN, show_default="all", help="The newest N.")
@click.option("--days", type=Number(0, min_open=True), help="Runs that began in the last D days.")
@workspace_option
@output_option
def command(by: By, runs: int, days: float | None, root: str, output: str) -> None:
    """Add up CPU and wall seconds, memory and written bytes of nodes over runs.

    \b
    Examples:
      headrace cost
      headrace cost --by day --days 30

    Wall seconds of nodes that ran side by side are added up; memory is that of
    the largest process. Work that was taken from the cache costs what looking
    it up took.
    """
    since = time.time() - days * _DAY_S if days is not None else 0.0
    with record_of(Workspace.open(root)) as source:
        chosen = [run for run in source.find_runs("", "", runs) if run.started >= since]
        found = costs(source, chosen, by)
    if output != "table":
        show([asdict(cost) for cost in found], COLUMNS, output)
    elif not found:
        click.echo("No run has begun in that time.")
    else:
        console().print(_table(found, by))
        click.echo(f"{len(chosen):,} runs")


def _table(found: list[Cost], by: By) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_footer=True)
    total = _total(found)
    rows = [_cells(cost) for cost in found]
    heads = (by, "executed", "cached", "CPU s", "wall s", "peak MB", "written MB", "not known")
    for head, foot in zip(heads, _cells(total), strict=True):
        table.add_column(head, footer=foot, justify="left" if head == by else "right")
    for row in rows:
        table.add_row(*row)
    return table


def _total(found: list[Cost]) -> Cost:
    return Cost(
        "in all",
        sum(cost.executed for cost in found),
        sum(cost.cached for cost in found),
        sum(cost.wall_s for cost in found),
        sum(cost.cpu_s for cost in found),
        max(cost.peak_memory_mb for cost in found),
        sum(cost.bytes for cost in found),
        sum(cost.unknown for cost in found),
    )


def _cells(cost: Cost) -> tuple[str, ...]:
    return (
        cost.name,
        f"{cost.executed:,}",
        f"{cost.cached:,}",
        f"{cost.cpu_s:,.1f}",
        f"{cost.wall_s:,.1f}",
        f"{cost.peak_memory_mb:,.0f}",
        f"{cost.bytes / 1e6:,.1f}",
        f"{cost.unknown:,}" if cost.unknown else "",
    )

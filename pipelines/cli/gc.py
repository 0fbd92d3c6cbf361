"""headrace gc: removes what nothing needs any more."""

from __future__ import annotations

import time
from collections import Counter

import click
from rich import box
from rich.table import Table

from pipelines import cleaning
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.lineage.open import record_of
from pipelines.workspace import Workspace


@click.command("gc")
@click.option(
    "--keep-runs",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Complete runs of each experiment that stay, newest first.",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(0),
    default=7.0,
    show_default=True,
    help="Runs younger than this stay too, and training state that was written since.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
@workspace_option
def command(keep_runs: int, keep_days: float, dry_run: bool, root: str) -> None:
    """Remove payloads of artifacts that no kept run and no pushed version needs, and say what that freed.

    \b
    Examples:
      headrace gc --dry-run
      headrace gc --keep-runs 1 --keep-days 0

    Runs whose version is still in its serving root (headrace models) are kept
    whole; headrace models --help says how to remove versions. What was recorded stays: lineage,
    why and diff go on answering. A node whose cached outputs are gone executes
    again. Nothing is lost by ending this half-way.
    """
    workspace, policy = Workspace.open(root), cleaning.Policy(keep_runs, keep_days)
    if not dry_run:
        done = cleaning.clean(workspace, policy, time.time())
        _tell(done.plan, f"{done.bytes / 1e6:,.1f} MB freed")
        return
    with record_of(workspace) as source:
        found = cleaning.plan(workspace, source, policy, time.time())
    sizes = {removal: cleaning.size(removal.path) for removal in found.removals}
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("of", "what", "folders", "MB"):
        table.add_column(column, justify="right" if column in ("folders", "MB") else "left")
    counts = Counter((removal.owner, removal.kind) for removal in found.removals)
    for (owner, kind), count in sorted(counts.items()):
        total = sum(size for item, size in sizes.items() if (item.owner, item.kind) == (owner, kind))
        table.add_row(owner, kind, f"{count:,}", f"{total / 1e6:,.1f}")
    if counts:
        console().print(table)
    _tell(found, f"{sum(sizes.values()) / 1e6:,.1f} MB would be freed; nothing was changed")


def _tell(found: cleaning.Plan, result: str) -> None:
    reasons = Counter(found.kept.values())
    stays = "; ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    click.echo(f"Runs kept: {len(found.kept)}" + (f" ({stays})" if stays else ""))
    click.echo(f"{len(found.removals):,} folders: {result}")

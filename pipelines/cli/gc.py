"""headrace gc: removes what nothing needs any more."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from pipelines import cleaning
from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.numbers import Number
from pipelines.cli.options import workspace_option
from pipelines.lineage.open import record_of
from pipelines.workspace import Workspace

COLUMNS = (
    Column("of"),
    Column("what"),
    Column("folders", right=True, show=lambda value: f"{value:,}"),
    Column("bytes", "MB", right=True, show=lambda value: f"{value / 1e6:,.1f}"),
)


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
    type=Number(0),
    default=7.0,
    show_default=True,
    help="Runs younger than this stay too, and training state that was written since.",
)
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
@workspace_option
@output_option
def command(keep_runs: int, keep_days: float, dry_run: bool, root: str, output: str) -> None:
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
    sizes: dict[Path, int] = {}
    if dry_run or output != "table":
        with record_of(workspace) as source:
            found = cleaning.plan(workspace, source, policy, time.time())
        sizes = {removal.path: cleaning.size(removal.path) for removal in found.removals}
        freed = f"{sum(sizes.values()) / 1e6:,.1f} MB would be freed; nothing was changed"
    if not dry_run:
        done = cleaning.clean(workspace, policy, time.time())
        found, freed = done.plan, f"{done.bytes / 1e6:,.1f} MB freed"
    rows = _rows(found.removals, sizes)
    if output != "table" or (dry_run and rows):
        show(rows, COLUMNS, output)
    if output == "table":
        _tell(found, freed)


def _rows(removals: Sequence[cleaning.Removal], sizes: Mapping[Path, int]) -> list[dict[str, Any]]:
    """What goes, by owner and kind."""
    groups: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for removal in removals:
        groups[removal.owner, removal.kind].append(removal.path)
    return [
        {
            "of": owner,
            "what": kind,
            "folders": len(paths),
            "bytes": sum(sizes.get(path, 0) for path in paths),
        }
        for (owner, kind), paths in sorted(groups.items())
    ]


def _tell(found: cleaning.Plan, result: str) -> None:
    reasons = Counter(found.kept.values())
    stays = "; ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    click.echo(f"Runs kept: {len(found.kept)}" + (f" ({stays})" if stays else ""))
    click.echo(f"{len(found.removals):,} folders: {result}")

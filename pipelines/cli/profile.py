"""headrace profile: where a training step's time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich import box
from rich.console import Console
from rich.table import Table

from pipelines import profiling
from pipelines.cli.listing import Column, output_option, print_json, show
from pipelines.cli.options import workspace_option
from pipelines.cli.screen import console
from pipelines.errors import NotFoundError
from pipelines.lineage.store import Store
from pipelines.workspace import Workspace

COLUMNS = tuple(Column(key) for key in ("name", "step_ms", "share", "device"))
"""Of an operation."""


@click.command("profile")
@click.argument("run")
@click.option("--operations", default=10, show_default=True, type=click.IntRange(1), help="How many to list.")
@workspace_option
@output_option
def command(run: str, operations: int, root: str, output: str) -> None:
    """Show where a training step of RUN went: input, compute, host, top operations; and what to change.

    \b
    Example:
      headrace run digits --set train.profile=20-30
      headrace profile latest

    The run must have been traced.
    """
    with Store(Workspace.open(root).database) as store:
        record = store.find_run(run)
        outputs = [
            artifact
            for node in store.nodes(record.run_id)
            if node.node == "Trainer"
            for artifact in node.outputs.get("model_run", ())
        ]
    if not outputs:
        raise NotFoundError(
            "This run has trained nothing",
            place=record.run_id,
            remedy="Name a run whose Trainer was executed.",
        )
    path = profiling.find(Path(outputs[0].uri))
    profile = profiling.read(path)
    listed = [asdict(item) for item in profile.operations[:operations]]
    if output == "json":
        whole = {**asdict(profile), "operations": listed}
        print_json({**whole, "step_ms": profile.step_ms, "advice": profile.advice(), "trace": str(path)})
    elif output == "csv":
        show(listed, COLUMNS, output)
    else:
        _print(console(), profile, operations, path)


def _print(screen: Console, profile: profiling.Profile, count: int, path: Path) -> None:
    how = "compiled with XLA" if profile.compiled else "not compiled"
    screen.print(f"{profile.steps} steps of {profile.step_ms:.2f} ms, {how}", highlight=False, soft_wrap=True)
    shares = profile.shares()
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("part", "ms a step", "share", "what it is"):
        table.add_column(column, justify="right" if column in ("ms a step", "share") else "left")
    for name, text in _PARTS.items():
        table.add_row(name, f"{shares[name] * profile.step_ms:.2f}", f"{shares[name]:.1%}", text)
    if profile.device_ms:
        share = profile.device_ms / profile.step_ms
        table.add_row("device", f"{profile.device_ms:.2f}", f"{share:.1%}", "of compute: on the accelerator")
    screen.print(table)
    screen.print(_operation_table(profile.operations[:count]))
    screen.print(f"Next        {profile.advice()}", highlight=False, soft_wrap=True)
    screen.print(f"Trace       {path}", highlight=False, soft_wrap=True)


_PARTS = {
    "input": "waiting for the next batch",
    "compute": "while any operation runs",
    "host": "the runtime between operations",
    "Python": "between calls: callbacks, summaries, checkpoints",
}


def _operation_table(operations: Sequence[profiling.Operation]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("operation", "ms a step, all threads", "share", "on"):
        table.add_column(column, justify="left" if column in ("operation", "on") else "right")
    for item in operations:
        table.add_row(item.name, f"{item.step_ms:.3f}", f"{item.share:.1%}", item.device)
    return table

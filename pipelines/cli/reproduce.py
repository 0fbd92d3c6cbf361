"""headrace reproduce: runs again what made a version, and compares."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from pipelines import reproduce
from pipelines.cli.listing import Column, output_option, show
from pipelines.cli.options import workspace_option
from pipelines.cli.progress import ConsoleProgress
from pipelines.cli.screen import output_apart
from pipelines.cli.watch import Watch, telling, watch_options
from pipelines.errors import InputError
from pipelines.lineage import query
from pipelines.lineage.open import record_of
from pipelines.lineage.view import RunView, view
from pipelines.run import Options, run
from pipelines.telemetry.progress import Notices, Several
from pipelines.workspace import Workspace

COLUMNS = (
    Column("what", " "),
    Column("recorded"),
    Column("again"),
    Column("allowed"),
    Column("same", " ", show=lambda same: "" if same else "differs", style=lambda same: "red"),
)


@click.command("reproduce")
@click.argument("version", metavar="MODEL@VERSION")
@click.option(
    "--allow", is_flag=True, help="Go on although code, packages or input files are not as they were."
)
@click.option(
    "--scratch",
    type=click.Path(file_okay=False),
    help="Workspace to run in, which stays; else a temporary one that is removed.",
)
@workspace_option
@watch_options
@output_option
def command(version: str, allow: bool, scratch: str | None, root: str, watch: Watch, output: str) -> int:
    """Run the chain that made MODEL@VERSION again, as it was recorded, and compare.

    \b
    Examples:
      headrace reproduce digits@1
      headrace reproduce digits@1 --allow --scratch again

    Configuration, seeds and input files are those of the record, and so is what
    was chosen by timing. Trained with train.deterministic on the same kind of
    machine, weights and metrics must be identical; else accuracies may be as far
    apart as chance explains. Exits 0 where they are, 1 where not, 2 where code,
    packages or input files differ. What the model was compared with then has no
    part in this.
    """
    with record_of(Workspace.open(root)) as source:
        asked = reproduce.recall(source, version)
    with _scratch(scratch) as workspace, contextlib.chdir(_folder(asked)):
        found = reproduce.obstacles(asked, workspace)
        if found and not allow:
            raise _refusal(version, found)
        rows = reproduce.compare(asked, _run(asked, workspace, watch, quiet=output != "table"))
    same = all(row.same for row in rows)
    if output == "table":
        for obstacle in found:
            click.echo(f"Not as it was: {_line(obstacle)}")
    show([asdict(row) for row in rows], COLUMNS, output)
    if output == "table":
        click.echo(f"{version} {'is reproduced' if same else 'is not reproduced'}.")
    return 0 if same else 1


def _folder(asked: reproduce.Recalled) -> Path:
    """Where the command was given; here, if that folder is gone."""
    return asked.folder if asked.folder.is_dir() else Path.cwd()


@contextlib.contextmanager
def _scratch(given: str | None) -> Iterator[Workspace]:
    if given is not None:
        yield Workspace.open(given, create=True, private=True)
        return
    with tempfile.TemporaryDirectory(prefix="headrace-reproduce-") as folder:
        yield Workspace.open(folder, create=True, private=True)


def _run(asked: reproduce.Recalled, workspace: Workspace, watch: Watch, *, quiet: bool) -> RunView:
    runner = asked.seen.run.details.get("runner", "local")
    options = Options(runner=runner, cache=False, beam_args=tuple(asked.experiment.beam.args))
    with (
        telling(watch, workspace.runs / "telemetry.log") as tell,
        output_apart(workspace.runs / "headrace.log") as screen,
    ):
        screen.quiet = quiet or watch.as_json
        progress = ConsoleProgress(screen)
        try:
            outcome = run(asked.experiment, workspace, options, Several(progress, Notices(tell)))
        finally:
            progress.close()
    with record_of(workspace) as source:
        return view(source, query.find_run(source, outcome.run_id))


def _refusal(version: str, found: Sequence[reproduce.Obstacle]) -> InputError:
    lines = [_line(obstacle) for obstacle in found[:8]]
    more = f"; and {len(found) - 8} more" if len(found) > 8 else ""
    return InputError(
        f"{version} cannot be reproduced as it was: {len(found)} things differ",
        place="; ".join(lines) + more,
        remedy="Bring them back (headrace why says which commit), or go on in spite of it with --allow.",
    )


def _line(obstacle: reproduce.Obstacle) -> str:
    return f"{obstacle.kind} {obstacle.what} (then {obstacle.before}, now {obstacle.now})"

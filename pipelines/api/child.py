"""A run in a process of its own."""

from __future__ import annotations

import json
import multiprocessing
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from pipelines import config, errors
from pipelines.workspace import Workspace


def run_apart(experiment: config.Experiment, root: Path, runner: str, progress: bool) -> str:
    """Runs in a fresh process, and raises here what was raised there; returns the run's id."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    arguments = (theirs, config.to_json(experiment), str(root), runner, progress)
    child = context.Process(target=_child, args=arguments)
    child.start()
    theirs.close()
    try:
        kind, said = ours.recv()
    except EOFError:
        child.join()
        raise errors.NodeFailedError(
            f"The run's process ended with exit code {child.exitcode}", place=str(root / "runs")
        ) from None
    except KeyboardInterrupt:
        child.join()
        raise
    child.join()
    if kind == "run":
        return str(said)
    raise getattr(errors, said.pop("class"), errors.HeadraceError)(said.pop("headline"), **said)


def _child(connection: Connection, settings: str, root: str, runner: str, progress: bool) -> None:
    from pipelines.cli.progress import ConsoleProgress
    from pipelines.cli.screen import output_apart
    from pipelines.run import Options, run

    experiment = config.from_mapping(json.loads(settings))
    try:
        workspace = Workspace.open(root, create=True)
        with output_apart(workspace.runs / "headrace.log") as console:
            console.quiet = not progress
            shown = ConsoleProgress(console)
            try:
                outcome = run(experiment, workspace, Options(runner=runner), shown)  # type: ignore[arg-type]
            finally:
                shown.close()
        connection.send(("run", outcome.run_id))
    except errors.HeadraceError as error:
        parts = {"headline": error.headline, "place": error.place, "remedy": error.remedy}
        connection.send(("error", {"class": type(error).__name__, **parts}))
    connection.close()
    sys.stdout.flush()

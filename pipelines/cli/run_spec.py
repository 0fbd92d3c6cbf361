"""headrace run-spec: a compiled KFP pipeline, run with no cluster."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from pipelines.cli.places import InputPath
from pipelines.cli.progress import ConsoleProgress
from pipelines.cli.screen import output_apart
from pipelines.cli.watch import Watch, telling, watch_options
from pipelines.errors import ConfigError, NodeFailedError, NotFoundError

if TYPE_CHECKING:
    from pipelines.run import Outcome
    from pipelines.runners.spec import Settings, SpecOutcome


@click.command("run-spec")
@click.argument("pipeline", type=InputPath(dir_okay=False))
@click.option(
    "--root",
    default="spec-runs",
    show_default=True,
    metavar="DIR",
    help="Folder for metadata, artifacts and logs of such runs.",
)
@click.option(
    "--parameter", "parameters", multiple=True, metavar="NAME=VALUE", help="Of the pipeline; repeatable."
)
@click.option("--no-cache", is_flag=True, help="Run every task.")
@click.option(
    "--parallel", default=0, metavar="N", help="Containers at a time; the number of cores by default."
)
@click.option("--warm", is_flag=True, help="Fork containers of ours from one process that has imported TFX.")
@watch_options
def command(
    pipeline: Path,
    root: str,
    parameters: tuple[str, ...],
    no_cache: bool,
    parallel: int,
    warm: bool,
    watch: Watch,
) -> int:
    """Run PIPELINE, a YAML file for Kubeflow Pipelines 2, on this machine.

    \b
    Example:
      headrace compile digits -o digits.yaml --set ...
      headrace run-spec digits.yaml --parameter workspace=$PWD/workspace --parameter epochs=3

    Every container is a process with this environment in place of its image.
    What Kubeflow's compiler would refuse is refused. Exits 0 when the run
    succeeded, 1 when a task failed, 2 for a mistake in what was given.
    """
    from pipelines.runners.spec import Settings

    if not pipeline.is_file():
        raise NotFoundError(
            "There is no such pipeline file", place=str(pipeline), remedy="headrace compile makes one."
        )
    given = dict(_pair(item) for item in parameters)
    settings = Settings(not no_cache, parallel, warm=warm)
    return run_text(pipeline.read_text(encoding="utf-8"), Path(root), given, settings, watch)


def _pair(item: str) -> tuple[str, str]:
    name, equals, value = item.partition("=")
    if not equals or not name:
        raise ConfigError(f"A parameter should look like name=value. Received: {item!r}", place="--parameter")
    return name, value


def run_text(text: str, root: Path, parameters: dict[str, Any], settings: Settings, watch: Watch) -> int:
    """Runs a compiled pipeline with its progress on the terminal; returns the exit code."""
    root.mkdir(parents=True, exist_ok=True)
    with telling(watch, root / "telemetry.log") as tell, output_apart(root / "headrace.log") as console:
        from pipelines.run import interruptible
        from pipelines.runners.spec import run_spec
        from pipelines.telemetry.progress import Notices, Several

        console.quiet = watch.as_json
        shown, began = ConsoleProgress(console), time.time()
        progress = Several(shown, Notices(tell))
        try:
            with interruptible():
                outcome = run_spec(text, root, parameters=parameters, settings=settings, progress=progress)
        finally:
            shown.close()
        progress.ended(*_as_run(outcome, time.time() - began))
        _print(console, outcome)
    return 0 if outcome.state == "succeeded" else 1


def _as_run(outcome: SpecOutcome, seconds: float) -> tuple[Outcome, NodeFailedError | None]:
    """The outcome as that of a run that was not compiled, and what failed."""
    from pipelines.lineage.store import COMPLETE, FAILED
    from pipelines.run import Outcome
    from pipelines.summary import Summary

    executed = [name for name, task in outcome.tasks.items() if task.attempts]
    cached = [name for name, task in outcome.tasks.items() if task.cached]
    errors = [f"{name}: {task.error}" for name, task in outcome.tasks.items() if task.error]
    failed = outcome.state != "succeeded"
    error = NodeFailedError((errors or ["The run failed"])[0], place=str(outcome.folder)) if failed else None
    summary = Summary(executed=executed, cached=cached)
    return Outcome(outcome.run_id, FAILED if failed else COMPLETE, seconds, summary), error


def _print(console: Console, outcome: SpecOutcome) -> None:
    tasks = outcome.tasks.values()
    console.print()
    console.print(f"Run         {outcome.run_id}: {outcome.state}", highlight=False)
    cached = sum(task.cached for task in tasks)
    executed = sum(task.attempts > 0 for task in tasks)
    console.print(f"Tasks       {executed} executed, {cached} cached", highlight=False)
    for name, task in outcome.tasks.items():
        for artifact in [item for items in task.artifacts.values() for item in items]:
            if artifact["metadata"].get("pushed_destination"):
                place = shlex.quote(str(artifact["metadata"]["pushed_destination"]))
                console.print(f"Pushed      {place}", highlight=False, soft_wrap=True)
        if task.error:
            console.print(f"Failed      {name}: {task.error}", highlight=False, soft_wrap=True)
    console.print(f"Logs        {shlex.quote(str(outcome.folder))}", highlight=False, soft_wrap=True)

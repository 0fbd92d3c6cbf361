"""headrace run: an experiment from data to pushed model."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import click
from rich.console import Console

from pipelines import config, resuming
from pipelines.cli import names
from pipelines.cli.options import workspace_option
from pipelines.cli.progress import ConsoleProgress
from pipelines.cli.screen import output_apart
from pipelines.cli.tables import print_summary
from pipelines.cli.watch import Watch, telling, watch_options
from pipelines.errors import ConfigError
from pipelines.lineage.store import REFUSED
from pipelines.resuming import LATEST
from pipelines.run import RUNNERS, Options, Outcome, Progress, run
from pipelines.telemetry.progress import Notices, Several
from pipelines.workspace import Workspace

SPEC = "spec"
"""Runs the compiled pipeline, see headrace run-spec."""


@click.command("run")
@click.argument("experiment", required=False, shell_complete=names.experiments)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one value; repeatable."
)
@workspace_option
@click.option(
    "--runner",
    type=click.Choice([*RUNNERS, SPEC]),
    default="local",
    show_default=True,
    help="local: a process per node, independent nodes side by side. beam: TFX's BeamDagRunner, one process. "
    "spec: as a cluster would, from the compiled pipeline alone; its state lies in WORKSPACE/spec.",
)
@click.option("--from", "from_node", metavar="NODE", help="Start here, with an earlier run's outputs.")
@click.option("--to", "to_node", metavar="NODE", help="Stop after this node.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value=LATEST,
    metavar="[RUN]",
    help="Go on with a run that was killed, interrupted or failed: with EXPERIMENT, its latest with the "
    "same settings, or a new run where there is none; else RUN, or the latest of all.",
)
@click.option("--no-cache", is_flag=True, help="Run every node, even where nothing changed.")
@click.option(
    "--beam-arg",
    "beam_args",
    multiple=True,
    metavar="OPTION",
    help="A Beam option for every Beam component, such as --direct_num_workers=2; repeatable.",
)
@watch_options
def command(
    experiment: str | None,
    overrides: tuple[str, ...],
    root: str,
    runner: str,
    from_node: str | None,
    to_node: str | None,
    resume: str | None,
    no_cache: bool,
    beam_args: tuple[str, ...],
    watch: Watch,
) -> int:
    """Run EXPERIMENT, a name that `headrace experiments` lists or a YAML file.

    \b
    Examples:
      headrace run digits
      headrace run digits --set train.epochs=5 --to Trainer
      headrace run --resume
      headrace run digits --log-format json --metrics-port 9400
      headrace run digits --beam-arg=--direct_running_mode=multi_processing \\
                          --beam-arg=--direct_num_workers=2

    Nodes whose inputs, code and settings have not changed are taken from the
    cache. Exits 0 when the run completed, 1 when a node failed or the model was
    refused, 2 for a mistake in what was given.
    """
    if experiment is None:
        if resume is None:
            raise click.UsageError("Missing argument 'EXPERIMENT'.")
        if overrides or from_node or to_node or no_cache or beam_args:
            raise click.UsageError("A run is resumed with the settings it began with; name no others.")
        return resume_run(resume, Workspace.open(root), root, watch)
    settings = config.load(experiment, overrides)
    workspace = Workspace.open(root, create=True)
    if runner == SPEC:
        partial = bool(from_node or to_node)
        return _run_compiled(settings, workspace, watch, cache=not no_cache, partial=partial)
    options = Options(
        runner=runner,  # type: ignore[arg-type]
        from_node=from_node,
        to_node=to_node,
        cache=not no_cache,
        beam_args=(*settings.beam.args, *beam_args),
    )
    if resume is not None:
        unfinished = resuming.unfinished_like(settings, options, workspace)
        if unfinished is not None:
            return resume_run(unfinished, workspace, root, watch)
    return run_experiment(settings, workspace, options, root, watch)


def _run_compiled(
    settings: config.Experiment, workspace: Workspace, watch: Watch, *, cache: bool, partial: bool
) -> int:
    """Compiles an experiment for Kubeflow and runs what came of it."""
    from pipelines.cli.run_spec import run_text
    from pipelines.runners import kubeflow
    from pipelines.runners.spec import Settings

    if partial:
        raise ConfigError("A compiled pipeline runs as a whole", place="--from, --to")
    folder = workspace.root / "spec"
    folder.mkdir(exist_ok=True)
    with output_apart(folder / "headrace.log"):
        text = kubeflow.compile_here(settings)
    (folder / "pipeline.yaml").write_text(text, encoding="utf-8")
    parameters = kubeflow.parameters_here(settings, workspace)
    return run_text(text, folder, parameters, Settings(cache, warm=True), watch)


def run_experiment(
    settings: config.Experiment,
    workspace: Workspace,
    options: Options,
    root: str,
    watch: Watch,
    *,
    quiet: bool = False,
) -> int:
    """Runs an experiment with its progress on the terminal, unless `quiet`; returns the exit code."""

    def work(progress: Progress) -> Outcome:
        return run(settings, workspace, options, progress)

    return _shown(work, workspace, root, watch, quiet=quiet)


def resume_run(name: str, workspace: Workspace, root: str, watch: Watch) -> int:
    """Goes on with a run, with its progress on the terminal; returns the exit code."""
    return _shown(lambda progress: resuming.resume(name, workspace, progress), workspace, root, watch)


def _shown(
    work: Callable[[Progress], Outcome], workspace: Workspace, root: str, watch: Watch, *, quiet: bool = False
) -> int:
    with (
        telling(watch, workspace.runs / "telemetry.log") as tell,
        output_apart(workspace.runs / "headrace.log") as console,
    ):
        console.quiet = quiet or watch.as_json
        progress = ConsoleProgress(console)
        try:
            outcome = work(Several(progress, Notices(tell)))
        finally:
            progress.close()
        _print_outcome(console, outcome, root)
    return 1 if outcome.state == REFUSED else 0


def _print_outcome(console: Console, outcome: Outcome, root: str) -> None:
    summary = outcome.summary
    console.print()
    print_summary(console, summary)
    console.print(
        f"Nodes       {len(summary.executed)} executed, {len(summary.cached)} cached; "
        f"{outcome.seconds:.0f} s",
        highlight=False,
    )
    where = "" if root == "workspace" else f" --workspace {shlex.quote(root)}"
    console.print(f"Next        headrace show {outcome.run_id}{where}", highlight=False, soft_wrap=True)
    if summary.pushed_now and summary.in_service == summary.pushed_version:
        served = "" if root == "workspace" else f" --model-root {shlex.quote(root)}/serving"
        console.print(f"            headrace serve{served}", highlight=False, soft_wrap=True)

"""headrace bulk: a served model over files, in batches on Beam."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from components.example_gen import origins
from pipelines import remote
from pipelines.beam_stage import Beam, BeamRunner
from pipelines.cli import names
from pipelines.cli.numbers import Number
from pipelines.cli.options import workspace_option
from pipelines.cli.places import InputPath, writing
from pipelines.cli.screen import output_apart
from pipelines.cli.watch import JSON, lines, log_format_option
from pipelines.errors import InputError
from pipelines.workspace import Workspace


@click.command("bulk")
@click.argument("model", shell_complete=names.models)
@click.argument("source", type=InputPath(), metavar="INPUT")
@click.argument("output", type=str)
@workspace_option
@click.option("--version", type=click.IntRange(1), help="By default the version in service.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["jsonl", "tfrecord"]),
    default="jsonl",
    show_default=True,
    help="Of the output: JSON Lines, or gzipped TFRecords of Examples.",
)
@click.option("--column", default="", help="Column of a CSV file that holds the text.")
@click.option("--pair-column", default="", help="Column with the second text, where the model takes pairs.")
@click.option("--signature", default="", help="Signature to call; by default the one that takes such files.")
@click.option(
    "--on-bad",
    type=click.Choice(["fail", "quarantine"]),
    default="fail",
    show_default=True,
    help="fail: no output when a record cannot be used. quarantine: such records are written aside.",
)
@click.option(
    "--max-bad-fraction",
    type=Number(0, 1),
    default=0.01,
    show_default=True,
    help="More bad records than this fail even in quarantine.",
)
@click.option("--beam", "engine", type=click.Choice(get_args(BeamRunner)), help="Where it runs.")
@click.option(
    "--set", "overrides", multiple=True, metavar="beam.KEY=VALUE", help="A setting of the engine; repeatable."
)
@click.option("--beam-arg", "beam_args", multiple=True, metavar="OPTION", help="A Beam option; repeatable.")
@log_format_option
def command(
    model: str,
    source: Path,
    output: str,
    root: str,
    version: int | None,
    log_format: str,
    **settings: Any,
) -> None:
    """Run MODEL over the files at INPUT, and write what it says to the folder OUTPUT.

    \b
    Examples:
      headrace bulk digits scans/ answers/
      headrace bulk digits scans/ answers/ --beam flink --set beam.address=http://localhost:8081
      headrace bulk intents questions.csv answers/ --column text --on-bad quarantine

    INPUT is a file, or a folder of files of one kind: images, CSV files with a
    header (for models that take text), or TFRecords of serialized examples.
    OUTPUT gets part-*.jsonl (or .tfrecord.gz), bad-*.jsonl and manifest.json,
    all or nothing.
    """
    workspace = Workspace.open(root)
    if remote.is_remote(output) and remote.is_there(output):
        raise InputError("The output is there already", place=output, remedy="Name a new place.")
    with writing(output) as folder:
        _run(model, source, folder, output, workspace, version, log_format, settings)


def _run(
    model: str,
    source: Path,
    folder: Path,
    output: str,
    workspace: Workspace,
    version: int | None,
    log_format: str,
    settings: Mapping[str, Any],
) -> None:
    from pipelines import bulk
    from pipelines.telemetry.notices import Notice

    request = bulk.Request(
        model=bulk.resolve_model(workspace.serving, model, version),
        source=source,
        output=folder,
        format=settings["output_format"],
        column=settings["column"],
        pair_column=settings["pair_column"],
        signature=settings["signature"],
        on_bad=settings["on_bad"],
        max_bad_fraction=settings["max_bad_fraction"],
        beam=_beam(settings["engine"], settings["overrides"]),
        beam_args=settings["beam_args"],
    )
    workspace.runs.mkdir(exist_ok=True)
    log = workspace.runs / "bulk.log"
    about = {"model": model, "version": request.model.name, "output": str(output)}
    with lines(log_format) as tell, output_apart(log) as screen:
        screen.quiet = log_format == JSON
        asked = f"Answers of {model} to {origins.told(str(source))}"
        tell(Notice("bulk.begun", asked, time.time(), facts=about))
        outcome = bulk.run(request)
        counts = {"answered": outcome.answered, "bad": outcome.bad, "seconds": outcome.seconds}
        ended = f"{outcome.answered} inputs answered"
        tell(Notice("bulk.ended", ended, time.time(), facts={**about, **counts}))
        rate = outcome.answered / max(outcome.seconds, 1e-9)
        screen.print(
            f"Answered    {outcome.answered:,} inputs with version {request.model.name} of {model}; "
            f"{outcome.seconds:.1f} s, {rate:,.0f} a second",
            highlight=False,
        )
        if outcome.bad:
            screen.print(f"Bad         {outcome.bad:,} records, in {output}/bad-*.jsonl", highlight=False)
        screen.print(f"Written     to {output}", highlight=False)


def _beam(engine: str | None, overrides: Sequence[str]) -> Beam:
    """The settings that an experiment would have under `beam:`."""
    from pipelines import config
    from pipelines.errors import ConfigError

    for override in overrides:
        if not override.startswith("beam."):
            raise ConfigError(
                f"Only the engine is set here. Received: {override!r}",
                place="--set",
                remedy="For example --set beam.address=http://localhost:8081.",
            )
    return config.beam_of((*overrides, *([f"beam.runner={engine}"] if engine else ())))

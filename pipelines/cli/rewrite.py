"""headrace rewrite: a SavedModel from anywhere, made smaller or faster, and measured."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import click

from pipelines.cli.listing import output_option
from pipelines.cli.numbers import Number
from pipelines.cli.places import InputPath
from pipelines.cli.screen import output_apart
from pipelines.cli.watch import TEXT, lines, log_format_option


@click.command("rewrite")
@click.argument("model", type=InputPath(exists=True, file_okay=False), metavar="MODEL_DIR")
@click.option(
    "--data",
    required=True,
    type=InputPath(exists=True),
    help=".npz with x (N, ...) and y (N,), or .npy with x alone; for Headrace's own models, TFRecords.",
)
@click.option(
    "--to",
    "target_folder",
    type=click.Path(path_type=Path),
    help="New folder for the chosen model; for triton, of that name in the model repository.",
)
@click.option("--signature", default="serving_default", show_default=True, help="The one to rewrite.")
@click.option("--label", default="label", show_default=True, help="Label feature of TFRecords.")
@click.option("--candidates", default="auto", show_default=True, help="auto, or names with commas between.")
@click.option(
    "--objective",
    type=click.Choice(["latency", "size", "throughput"]),
    default="latency",
    show_default=True,
)
@click.option(
    "--target",
    type=click.Choice(["tf_serving", "tf_serving_tflite", "triton", "edge"]),
    default="tf_serving",
    show_default=True,
    help="What is to load the chosen model.",
)
@click.option("--max-drop", type=Number(0, 100), default=1.0, show_default=True, help="Points.")
@click.option(
    "--max-slice-drop",
    type=Number(0, 100, min_open=True),
    default=5.0,
    show_default=True,
    help="Points, by class.",
)
@click.option("--confidence", type=Number(0, 0.9999, min_open=True), default=0.95, show_default=True)
@click.option(
    "--timeout",
    type=Number(0, min_open=True),
    default=600.0,
    show_default=True,
    help="Seconds a candidate.",
)
@click.option(
    "--memory",
    type=Number(0, min_open=True),
    metavar="MB",
    help="MiB a candidate; 0.4 of what is available, and at least 2048, when not given.",
)
@output_option
@log_format_option
def command(
    model: Path, data: Path, target_folder: Path | None, output: str, log_format: str, **settings: Any
) -> int:
    """Rewrite the SavedModel in MODEL_DIR, judge the candidates on --data, and keep the best.

    \b
    Examples:
      headrace rewrite exported/ --data held_out.npz --to faster/
      headrace rewrite exported/ --data held_out.npz --target edge --objective size

    The signature must take one tensor of numbers. A fifth of the data calibrates,
    the rest judges; without labels, every answer that changes counts as a loss.
    Exits with 1 where nothing qualified.
    """
    from pipelines import rewriting
    from pipelines.telemetry.notices import Notice

    target = rewriting.new_folder(target_folder) if target_folder else None
    about = {"model": str(model), "output": str(target) if target else None}
    with (
        lines(log_format) as tell,
        tempfile.TemporaryDirectory() as scratch,
        output_apart(Path(scratch, "rewrite.log")) as screen,
    ):
        if output == "table" and log_format == TEXT:
            screen.print("Rewriting; each candidate takes about ten seconds", highlight=False)
        tell(Notice("rewrite.begun", f"Rewriting {model}", time.time(), facts=about))
        request = rewriting.request(model, data, settings)
        summary = rewriting.run(request, Path(scratch), target)
        found = {"chosen": summary.chosen, "reason": summary.reason}
        tell(Notice("rewrite.ended", f"Chosen: {summary.chosen}", time.time(), facts={**about, **found}))
    from pipelines.cli.candidates import print_candidates

    print_candidates(summary, output)
    if target and summary.chosen != rewriting.IDENTITY and output == "table":
        click.echo(f"Written     to {target}")
    return 1 if summary.chosen == rewriting.IDENTITY else 0

"""headrace: the command line. Sub-commands are imported when they are called."""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Any

import click

from pipelines.errors import HeadraceError, nearest

# name -> (module, one-line help): help is shown without importing any of them.
COMMANDS = {
    "experiments": ("pipelines.cli.experiments", "List the experiments that ship."),
    "init": ("pipelines.cli.init", "Make a project folder with an experiment and a network of your own."),
    "run": ("pipelines.cli.run", "Run an experiment: data to pushed model."),
    "compile": ("pipelines.cli.compile", "Compile an experiment for Kubeflow Pipelines or Vertex."),
    "run-spec": ("pipelines.cli.run_spec", "Run a compiled pipeline with no cluster."),
    "submit": ("pipelines.cli.submit", "Run an experiment on Kubeflow Pipelines."),
    "schedule": ("pipelines.cli.schedule", "Recurring runs on Kubeflow Pipelines."),
    "image": ("pipelines.cli.image", "Build and push the image that a cluster runs."),
    "runs": ("pipelines.cli.runs", "List the runs of a workspace."),
    "show": ("pipelines.cli.show", "Show one run, node by node."),
    "candidates": ("pipelines.cli.candidates", "Show what the Rewriter tried in a run, and what came of it."),
    "rewrite": ("pipelines.cli.rewrite", "Make a SavedModel smaller or faster, and measure it."),
    "report": ("pipelines.cli.report", "Write a run as one HTML page."),
    "ui": ("pipelines.cli.ui", "Serve pages on runs, models and lineage on this machine."),
    "profile": ("pipelines.cli.profile", "Show where a training step's time went, and what to change."),
    "data": ("pipelines.cli.data", "Look at data before anything is trained on it."),
    "schema": ("pipelines.cli.schema", "Write, compare and update a curated schema."),
    "explain-cache": (
        "pipelines.cli.explain_cache",
        "Say what the cache holds for a run, and why not more.",
    ),
    "serve": ("pipelines.cli.serve", "Serve models by TensorFlow Serving's gRPC and REST API."),
    "predict": ("pipelines.cli.predict", "Send images, texts or examples to a running server."),
    "bulk": ("pipelines.cli.bulk", "Run a served model over files, in batches on Beam."),
    "models": ("pipelines.cli.models", "List, describe, sign, export and remove pushed versions."),
    "rollback": (
        "pipelines.cli.rollback",
        "Put an older version of a model in service, or a newer one again.",
    ),
    "gc": ("pipelines.cli.gc", "Remove what no kept run and no pushed version needs."),
    "cost": ("pipelines.cli.cost", "Add up what nodes cost over runs."),
    "reproduce": ("pipelines.cli.reproduce", "Run again what made a version, and compare."),
    "retrain": (
        "pipelines.cli.retrain",
        "Train again on a schedule, on new data, on drift; and be left alone.",
    ),
    "feedback": ("pipelines.cli.feedback", "Add what became of a model's answers."),
    "why": ("pipelines.cli.why", "Say why a version is as it is."),
    "lineage": ("pipelines.cli.lineage", "Show where a model, run or file comes from or leads to."),
    "trace": ("pipelines.cli.trace", "Say which version was serving at a time."),
    "schema-file": ("pipelines.cli.schema_file", "Print the JSON Schema of an experiment file, for editors."),
    "doctor": ("pipelines.cli.doctor", "Look at what this installation stands on, and what it lacks."),
    "completion": ("pipelines.cli.completion", "Print the completion of a shell: bash, zsh or fish."),
    "diff": ("pipelines.cli.diff", "Say what differs between two runs."),
}


class LazyGroup(click.Group):
    """A group that imports a sub-command when it is called, and answers typing errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        return importlib.import_module(COMMANDS[name][0]).command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in COMMANDS:
            raise click.UsageError(f"There is no command {args[0]!r}. {nearest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _print_version(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from importlib import metadata

    from pipelines import doctor

    click.echo(f"headrace {metadata.version('headrace')}")
    for name, version in doctor.versions().items():
        click.echo(f"  {name} {version}")
    ctx.exit()


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version, and of what it stands on.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """From raw files to an optimised model in TensorFlow Serving.

    \b
    Begin with:
      headrace run digits
    """
    ctx.obj = {"debug": debug}


def main(arguments: list[str] | None = None) -> None:
    """Entry point: exits 0, 2 for a user's mistake, 1 for a run that failed or was refused."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = cli.main(args=given, prog_name="headrace", standalone_mode=False)
    except HeadraceError as error:
        if "--debug" in given:
            raise
        _print_error(error, given)
        code = error.exit_code
    except click.ClickException as error:
        if _logs_json(given):
            _print_error(HeadraceError(error.format_message()), given)
        else:
            error.show()
        code = 2
    except (click.Abort, KeyboardInterrupt):  # click's own word for Ctrl-C is an Exception
        if _logs_json(given):
            _print_error(HeadraceError("Interrupted"), given)
        else:
            click.echo("Interrupted.", err=True)
        code = 1
    except Exception as error:
        if "--debug" in given:
            raise
        text = str(error).strip().splitlines()
        headline = f"Unexpected: {type(error).__name__}: {text[0] if text else ''}"
        remedy = "This is a fault of Headrace. headrace --debug COMMAND shows where it happened."
        _print_error(HeadraceError(headline, remedy=remedy), given)
        code = 1
    _exit(int(code or 0))


def _exit(code: int) -> None:
    """Ends at once: TensorFlow's libraries have crashed in the interpreter's shutdown."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code) if "tensorflow" in sys.modules else sys.exit(code)


def _logs_json(given: list[str]) -> bool:
    """Whether standard error takes JSON; seen before options are read, which may be what fails."""
    for place, text in enumerate(given):
        name, equals, value = text.partition("=")
        if name.replace("_", "-") == "--log-format":
            return (value if equals else "".join(given[place + 1 : place + 2])) == "json"
    return os.environ.get("HEADRACE_LOG_FORMAT") == "json"


def _print_error(error: HeadraceError, given: list[str]) -> None:
    from components.example_gen import origins

    if _logs_json(given):
        from components import logs

        told = {"place": origins.told(error.place), "remedy": error.remedy}
        click.echo(logs.line("error", error.headline, at=time.time(), level="error", **told), err=True)
        return
    colour = None if os.environ.get("NO_COLOR") else "red"
    click.secho(f"Error: {error.headline}", fg=colour, err=True)
    for label, text in (("at", error.place), ("do", error.remedy)):
        if text:
            click.echo(f"  {label}: {origins.told(text)}", err=True)


if __name__ == "__main__":
    main()

"""headrace submit: an experiment on Kubeflow Pipelines."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import click

from pipelines import config
from pipelines.cli.watch import TEXT, lines, log_format_option


def endpoint_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--endpoint, --kfp-experiment and --namespace."""
    options = (
        click.option(
            "--endpoint",
            required=True,
            envvar="KF_PIPELINES_ENDPOINT",
            metavar="URL",
            help="Of Kubeflow Pipelines; KF_PIPELINES_ENDPOINT by default.",
        ),
        click.option(
            "--kfp-experiment", metavar="NAME", help="Kubeflow's group of runs; EXPERIMENT by default."
        ),
        click.option("--namespace", metavar="NAME", help="Where users have namespaces of their own."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def compiled(experiment: str, overrides: tuple[str, ...], *, cache: bool = True) -> tuple[Any, str]:
    """The experiment and its pipeline, with every mistake found before a cluster hears of it."""
    from pipelines.cli.screen import output_apart_nowhere
    from pipelines.runners import kubeflow

    settings = config.load(experiment, overrides)
    kubeflow.check_for_cluster(settings)
    with output_apart_nowhere():
        text = kubeflow.compile_pipeline(settings, enable_cache=cache)
    return settings, text


@click.command("submit")
@click.argument("experiment")
@endpoint_options
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one value; repeatable."
)
@click.option("--no-cache", is_flag=True, help="Run every node, even where nothing changed.")
@click.option("--wait", is_flag=True, help="Wait until the run has ended; exit 1 where it failed.")
@log_format_option
def command(
    experiment: str,
    endpoint: str,
    kfp_experiment: str | None,
    namespace: str | None,
    overrides: tuple[str, ...],
    no_cache: bool,
    wait: bool,
    log_format: str,
) -> int:
    """Compile EXPERIMENT and run it on Kubeflow Pipelines.

    \b
    Example:
      headrace submit digits --endpoint http://localhost:8080 --wait \\
                             --set kubeflow.image=registry/headrace:1 --set kubeflow.volume.claim=headrace

    Nothing is submitted where something is missing: the image, a volume, or data
    that a cluster can see.
    """
    from pipelines.runners import kfp_client, spec_load
    from pipelines.telemetry.notices import Notice

    # Asked first: compiling takes a quarter of a minute.
    with kfp_client.cluster(endpoint, namespace) as kubeflow:
        settings, text = compiled(experiment, overrides, cache=not no_cache)
        spec_load.load(text)
        name = f"{settings.name} {datetime.now():%Y-%m-%d %H:%M:%S}"
        run = kubeflow.submit(text, name, experiment=kfp_experiment or settings.name)
        with lines(log_format) as tell:
            about = {"experiment": settings.name, "run": run.run_id, "page": run.link}

            def say(state: str) -> None:
                if log_format == TEXT:
                    click.echo(f"State       {state.lower()}")
                facts = {**about, "state": state.lower()}
                tell(Notice("submit.state", f"Run {run.run_id} {state.lower()}", time.time(), facts=facts))

            if log_format == TEXT:
                click.echo(f"Run         {run.run_id}")
                click.echo(f"Page        {run.link}")
            tell(Notice("submit.submitted", f"Run {run.run_id}", time.time(), facts=about))
            if wait:
                kubeflow.wait(run.run_id, say)
    return 0

"""headrace compile: an experiment as a pipeline for Kubeflow Pipelines or Vertex."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines import config, remote
from pipelines.cli.places import writing
from pipelines.errors import WorkspaceError


@click.command("compile")
@click.argument("experiment")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), help="The YAML to write.")
@click.option(
    "--target",
    type=click.Choice(["kfp", "vertex"]),
    default="kfp",
    show_default=True,
    help="kfp: open-source Kubeflow Pipelines 2. vertex: Vertex AI Pipelines.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one value; repeatable."
)
@click.option("--no-cache", is_flag=True, help="No node may take over earlier outputs.")
def command(experiment: str, output: str, target: str, overrides: tuple[str, ...], no_cache: bool) -> int:
    """Compile EXPERIMENT to a KFP v2 pipeline.

    \b
    Example:
      headrace compile digits -o digits.yaml --set kubeflow.image=registry/headrace:1 \\
                                             --set kubeflow.volume.claim=headrace

    The pipeline has the parameters image, workspace, data_path, span and epochs.
    What the cluster gives each node is in the experiment's `kubeflow:` group.
    """
    from pipelines.cli.screen import output_apart_nowhere
    from pipelines.runners import kubeflow

    settings = config.load(experiment, overrides)
    kubeflow.check_for_cluster(settings)
    path = Path(output)
    if not remote.is_remote(output) and not path.absolute().parent.is_dir():
        raise WorkspaceError("The folder does not exist", place=str(path.absolute().parent))
    with output_apart_nowhere():
        text = kubeflow.compile_pipeline(settings, target, enable_cache=not no_cache)  # type: ignore[arg-type]
    with writing(output) as file:
        file.write_text(text, encoding="utf-8")
    click.echo(f"{output}: {experiment} for {target}, {len(text) // 1000} kB")
    return 0

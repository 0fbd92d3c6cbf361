"""headrace image: what a cluster runs."""

from __future__ import annotations

import click

from pipelines import image


@click.group("image")
def command() -> None:
    """Build and push the image that a cluster runs.

    \b
    Example:
      headrace image build registry.example.com/headrace:1
      headrace image push registry.example.com/headrace:1
    """


@command.command("build")
@click.argument("name", metavar="IMAGE")
@click.option("--gpu", is_flag=True, help="With the CUDA libraries that TensorFlow asks for.")
@click.option("--base", metavar="IMAGE", help="Another base, such as python@sha256:... to pin it.")
def build(name: str, gpu: bool, base: str | None) -> int:
    """Build IMAGE from this checkout and its lock (kubeflow/Dockerfile).

    \b
    Example:
      headrace image build registry.example.com/headrace:1
    """
    image.check_name(name)
    folder, tool = image.context(), image.usable_tool()
    commands = [image.build_command(tool or image.TOOLS[0], name, gpu=gpu, base=base)]
    if tool is None:
        raise image.missing(commands, folder)
    image.run(commands, folder)
    click.echo(f"Built {name}. Next: headrace image push {name}")
    return 0


@command.command("push")
@click.argument("name", metavar="IMAGE")
def push(name: str) -> int:
    """Push IMAGE to its registry.

    \b
    Example:
      headrace image push registry.example.com/headrace:1
    """
    image.check_name(name)
    folder, tool = image.context(), image.usable_tool()
    commands = [image.push_command(tool or image.TOOLS[0], name)]
    if tool is None:
        raise image.missing(commands, folder)
    image.run(commands, folder)
    click.echo(f"Pushed {name}. Next: --set kubeflow.image={name}")
    return 0

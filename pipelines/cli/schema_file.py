"""headrace schema-file: the JSON Schema of an experiment file, for editors."""

from __future__ import annotations

import click

from pipelines.cli.places import writing
from pipelines.errors import WorkspaceError


@click.command("schema-file")
@click.option("-o", "--output", "target", help="Write it here instead of printing it.")
@click.option("--page", is_flag=True, help="The reference page in Markdown instead.")
def command(target: str | None, page: bool) -> None:
    """Print the JSON Schema of an experiment file, by which editors complete and check it.

    \b
    Examples:
      headrace schema-file -o experiment.schema.json
      headrace schema-file --page

    An editor takes it by a first line in the YAML file:
      # yaml-language-server: $schema=experiment.schema.json
    """
    from pipelines import reference

    text = reference.page() if page else reference.schema_text()
    if target is None:
        click.echo(text, nl=False)
        return
    with writing(target) as path:
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise WorkspaceError(f"The file cannot be written: {error.strerror}", place=target) from error
    click.echo(f"Written to {target}")

"""Parts of the reference that are written from the code: errors, experiments, help of commands.

```{error-headlines}
```
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import click
import headlines
import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]


class _Written(SphinxDirective):
    """A directive without content whose text is Markdown made here."""

    has_content: ClassVar[bool] = False

    def lines(self) -> Iterator[str]:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(self.lines()), allow_section_headings=True)


class ErrorHeadlines(_Written):
    """Every headline in the code with its remedy; words in italics stand for what is at hand."""

    def lines(self) -> Iterator[str]:
        yield "| headline | what to do |"
        yield "|---|---|"
        for item in headlines.all_of(ROOT):
            yield f"| {_cell(item.headline)} | {_cell(item.remedy)} |"


class Experiments(_Written):
    """The experiments that ship, as `headrace experiments` lists them."""

    def lines(self) -> Iterator[str]:
        yield "| experiment | what | needs | takes |"
        yield "|---|---|---|---|"
        for path in sorted((ROOT / "pipelines" / "experiments").glob("*.yaml")):
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
            row = (
                f"`{path.stem}`",
                *(_cell(found.get(key, "")) for key in ("description", "needs", "takes")),
            )
            yield f"| {' | '.join(row)} |"


def _describe(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """A command's help, plain text in which a bar begins a line of an example, as reStructuredText."""
    written: list[str] = []
    for is_example, group in itertools.groupby(lines, lambda line: line.startswith("|")):
        if is_example:
            head, *examples = [line.removeprefix("|").rstrip() for line in group]
            written += [
                head.strip(),
                "",
                ".. code-block:: bash",
                "",
                *(f"   {line}" for line in examples),
                "",
            ]
        else:
            written += [line.replace("*", "\\*") for line in group]
    lines[:] = written


def _describe_options(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    """Options' help is plain text too, but for defaults, which are written as literals."""
    lines[:] = [line if "``" in line else line.replace("*", "\\*") for line in lines]


def _cell(text: str) -> str:
    for sign in "\\|`<>[]$":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split()).replace(headlines.OPEN, "*").replace(headlines.CLOSE, "*")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("error-headlines", ErrorHeadlines)
    app.add_directive("experiments", Experiments)
    app.connect("sphinx-click-process-description", _describe)
    app.connect("sphinx-click-process-options", _describe_options)
    return {"parallel_read_safe": True}

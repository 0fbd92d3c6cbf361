"""Directives that write parts of the reference from the code: errors and experiments.

```{error-headlines}
```
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

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


def _cell(text: str) -> str:
    for sign in "\\|`<>[]$":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split()).replace(headlines.OPEN, "*").replace(headlines.CLOSE, "*")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("error-headlines", ErrorHeadlines)
    app.add_directive("experiments", Experiments)
    return {"parallel_read_safe": True}

"""The sections of a report; each takes a run and is empty where what it shows was not recorded."""

from __future__ import annotations

from pipelines.report.markup import Child, Markup, tag

MANY_CLASSES = 20
"""More classes than this are folded away, or told by their most frequent confusions."""


def section(id_: str, title: str, *content: Child) -> Markup:
    """A section with its heading; nothing where there is no content."""
    if not any(content):
        return Markup("")
    heading = tag("h2", title, id=f"{id_}-title")
    return tag("section", heading, *content, id=id_, aria_labelledby=f"{id_}-title")

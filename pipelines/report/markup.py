"""HTML and SVG by small calls; every text is escaped, since labels and file names are other people's.

tag("p", "a < b", class_="note")        # <p class="note">a &lt; b</p>
"""

from __future__ import annotations

import html
from collections.abc import Iterable

Attribute = str | int | float | bool | None
_VOID = frozenset({"meta", "link", "img", "br", "hr", "input"})


class Markup(str):
    """Text that is markup already."""


Child = str | int | float | None
"""A `Markup` goes in as it is, anything else is escaped, None is left out."""


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element. `class_` and the like lose their underscore; inner ones become hyphens."""
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Markup:
    """Several pieces, one after another."""
    return Markup("".join(_escape(child) for child in children if child is not None))


def _escape(child: Child) -> str:
    return child if isinstance(child, Markup) else html.escape(str(child))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(text)}"'


def table(
    head: Iterable[str], rows: Iterable[Iterable[Child]], *, caption: str, numbers: bool = True
) -> Markup:
    """A table in a box of its own that scrolls where the page is narrow.

    Args:
        head: column titles.
        rows: cells, the first of each row being its name.
        caption: read by screen readers, and shown above.
        numbers: whether columns after the first hold numbers, and go to the right.
    """
    titles = [tag("th", title, scope="col") for title in head]
    body = [_row(list(row)) for row in rows]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *titles)),
            tag("tbody", *body),
            class_="numbers" if numbers else None,
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def _row(cells: list[Child]) -> Markup:
    return tag("tr", tag("th", cells[0], scope="row"), *(tag("td", cell) for cell in cells[1:]))


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """A list of names and values; pairs without a value are left out."""
    rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs if value not in (None, "")]
    return tag("dl", *rows)


def fold(summary: Child, *content: Child, id_: str | None = None) -> Markup:
    """Something that opens on demand, and is open on paper."""
    return tag("details", tag("summary", summary), *content, id=id_)

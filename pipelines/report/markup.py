"""HTML and SVG by small calls; every text is escaped, since labels and file names are other people's.

tag("p", "a < b", class_="note")        # <p class="note">a &lt; b</p>
"""

from __future__ import annotations

import html
import re
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


def table(head: Iterable[str], rows: Iterable[Iterable[Child]], *, caption: str) -> Markup:
    """A table in a box of its own that scrolls where the page is narrow; columns of numbers go to the right.

    Args:
        head: column titles.
        rows: cells, the first of each row being its name.
        caption: read by screen readers, and shown above.
    """
    cells = [list(row) for row in rows]
    titles = list(head)
    numbers = [_all_numbers([row[column] for row in cells]) for column in range(len(titles))]
    top = [
        tag("th", title, scope="col", class_="number" if number else None)
        for title, number in zip(titles, numbers, strict=True)
    ]
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption),
            tag("thead", tag("tr", *top)),
            tag("tbody", *(_row(row, numbers) for row in cells)),
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label=caption,
    )


_NUMBER = re.compile(r"[+-]?[\d,.]+%?|-|")
_LONG = 24
_TAGS = re.compile(r"<[^>]+>")


def _all_numbers(cells: Iterable[Child]) -> bool:
    texts = [_TAGS.sub("", str(cell or "")).rstrip(" ✕") for cell in cells]
    return any(texts) and all(_NUMBER.fullmatch(text) for text in texts)


def _row(cells: list[Child], numbers: list[bool]) -> Markup:
    name = tag("th", cells[0], scope="row", class_="number" if numbers[0] else None)
    rest = zip(cells[1:], numbers[1:], strict=True)
    return tag("tr", name, *(tag("td", cell, class_=_kind(cell, number)) for cell, number in rest))


def _kind(cell: Child, number: bool) -> str | None:
    """Sentences get room: on a phone a table would else break them into single words."""
    if number:
        return "number"
    return "long" if len(str(cell)) > _LONG and not isinstance(cell, Markup) else None


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """A list of names and values; pairs without a value are left out."""
    rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs if value not in (None, "")]
    return tag("dl", *rows)


def fold(summary: Child, *content: Child, id_: str | None = None) -> Markup:
    """Something that opens on demand, and is open on paper."""
    return tag("details", tag("summary", summary), *content, id=id_)

"""What a card is made of, and the same as Markdown and as HTML.

    card = Card("digits, version 3", [Section("What it is", [Paragraph("...")])])
    markdown(card), html(card)

Texts in it are other people's: class names, file names, words of an
experiment. Both forms escape them.
"""

from __future__ import annotations

import html as entities
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipelines.report import shell
from pipelines.report.markup import Markup, tag
from pipelines.report.markup import table as html_table

_SPECIAL = re.compile(r"([\\`*_\[\]|~#])")


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Names with their values, of which empty ones are left out."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows under a head; the first cell names the row."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Code:
    """Commands of a shell."""

    text: str


Block = Paragraph | Facts | Items | Table | Code


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Card:
    """A title, sections, and a line on where it comes from."""

    title: str
    sections: Sequence[Section]
    footer: str


def markdown(card: Card) -> str:
    """GitHub's Markdown."""
    parts = [f"# {_text(card.title)}"]
    for section in card.sections:
        parts.append(f"## {_text(section.title)}")
        parts += [written for block in section.blocks if (written := _markdown(block))]
    parts.append(f"*{_text(card.footer)}*")
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block) -> str:
    if isinstance(block, Paragraph):
        return _text(block.text)
    if isinstance(block, Facts):
        return "\n".join(f"- **{_text(name)}**: {_text(value)}" for name, value in block.pairs if value)
    if isinstance(block, Items):
        return "\n".join(f"- {_text(text)}" for text in block.texts)
    if isinstance(block, Code):
        return f"```sh\n{block.text}\n```"
    lines = [_row(block.head), _row(["---"] * len(block.head), escape=False), *map(_row, block.rows)]
    return f"{_text(block.caption)}:\n\n" + "\n".join(lines)


def _row(cells: Sequence[str], *, escape: bool = True) -> str:
    return f"| {' | '.join(_text(cell) if escape else cell for cell in cells)} |"


def _text(text: str) -> str:
    """Text that Markdown shows as it stands, on one line."""
    one_line = " ".join(text.split())
    return _SPECIAL.sub(r"\\\1", entities.escape(one_line, quote=False))


def html(card: Card) -> str:
    """One page that opens without a network."""
    ids = {section.title: f"section-{number}" for number, section in enumerate(card.sections)}
    main = tag(
        "main",
        tag("header", tag("p", "Model card", class_="note"), tag("h1", card.title)),
        *(
            tag(
                "section",
                tag("h2", section.title),
                *(part for block in section.blocks for part in _html(block)),
                id=ids[section.title],
            )
            for section in card.sections
        ),
        id="content",
    )
    links = [(title, f"#{name}") for title, name in ids.items()]
    return shell.document(f"{card.title} · model card", links, main, card.footer)


def _html(block: Block) -> Iterator[Markup]:
    if isinstance(block, Paragraph):
        yield tag("p", block.text)
    elif isinstance(block, Facts):
        rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in block.pairs if value]
        yield tag("dl", *rows)
    elif isinstance(block, Items):
        yield tag("ul", *(tag("li", text) for text in block.texts))
    elif isinstance(block, Code):
        yield tag("pre", tag("code", block.text), tabindex=0)
    else:
        yield html_table(block.head, block.rows, caption=block.caption)

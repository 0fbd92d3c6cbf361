"""The headlines of errors, read from the code that raises them.

for item in all_of(ROOT): item.headline, item.remedy
with_stars(item.headline)     # "There is no node *"
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OPEN, CLOSE = "\x02", "\x03"
"""Around the names of what is filled in."""

_PACKAGES = ("pipelines", "components", "modules")


@dataclass(frozen=True, order=True)
class Headline:
    """An error as its class is called: what is filled in at run time stands in marks."""

    headline: str
    remedy: str
    file: str


def all_of(root: Path) -> list[Headline]:
    """By headline, each once."""
    found = {
        (item.headline, item.remedy): item
        for package in _PACKAGES
        for path in sorted((root / package).rglob("*.py"))
        for item in _in_file(path, root)
    }
    return sorted(found.values(), key=lambda item: item.headline.replace(OPEN, "~"))


def with_stars(text: str) -> str:
    """The text with a star for each part that is filled in."""
    return re.sub(f"{OPEN}.*?{CLOSE}", "*", text)


def _in_file(path: Path, root: Path) -> Iterator[Headline]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        keywords = {item.arg: item.value for item in node.keywords}
        if not keywords.keys() & {"place", "remedy"}:
            continue
        for headline in _texts(node.args[0]):
            remedy = next(iter(_texts(keywords["remedy"])), "") if "remedy" in keywords else ""
            yield Headline(headline, remedy, str(path.relative_to(root)))


def _texts(node: ast.expr) -> list[str]:
    """The texts that an expression may be; none where it is made elsewhere."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) and node.value else []
    if isinstance(node, ast.JoinedStr):
        parts = [
            str(part.value) if isinstance(part, ast.Constant) else f"{OPEN}{_name(part)}{CLOSE}"
            for part in node.values
        ]
        text = "".join(parts)
        return [text] if any(isinstance(part, ast.Constant) for part in node.values) else []
    if isinstance(node, ast.IfExp):
        return _texts(node.body) + _texts(node.orelse)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [f"{first}{second}" for first in _texts(node.left) for second in _texts(node.right)]
    return []


def _part(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else f"{OPEN}{_name(part)}{CLOSE}"


def _name(part: ast.expr) -> str:
    """A word for what is filled in: the last name in it."""
    every = [
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(part)
        if isinstance(node, (ast.Attribute, ast.Name))
    ]
    names = [name for name in every if not hasattr(builtins, name)] or every
    return names[0].strip("_").replace("_", " ") if names else "..."

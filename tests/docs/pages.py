"""The pages of the documentation, and the blocks in them.

for page in PAGES: blocks(page, "bash")
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sybil import Document
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser

from tests.conftest import ROOT

DOCS = ROOT / "docs"
_HISTORY = ROOT / "CHANGELOG.md"
PAGES = sorted({*DOCS.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "kubeflow" / "README.md"} - {_HISTORY})
"""All but the history, which may name what is no longer there."""

ON_DIGITS = [DOCS / name for name in ("serving.md", "workspace.md", "editors.md", "handing-on.md")]
"""Run by the tests of the digits chain, in its workspace: they train nothing, and take seconds."""


def name_of(page: Path) -> str:
    """As it is called in the repository."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> Iterator[Example]:
    """The blocks of one language, in order; `parsed` is their text, `line` where they begin."""
    yield from Document.parse(str(page), CodeBlockParser(language, lambda example: None)).examples()

"""What every page of a report is put into: head, styles, navigation, and a policy that loads nothing.

text = document("digits-1 · Headrace", [("Chain", "#chain")], main, "headrace report, ...")
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from pipelines.report.markup import Markup, tag

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The page loads nothing from anywhere, and a browser holds it to that."""


def document(title: str, links: Sequence[tuple[str, str]], main: Markup, footer: str) -> str:
    """A whole page.

    Args:
        title: in the browser's tab.
        links: name and address of each; one in the page is `#id`.
        main: the content, whose id is `content`.
        footer: what made the page, and when.
    """
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        _navigation(links),
        main,
        tag("footer", footer),
        tag("script", _resource("page.js")),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", title),
        # An empty icon: browsers would ask for one beside the file.
        tag("link", rel="icon", href="data:,"),
        tag("style", _resource("page.css")),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _navigation(links: Sequence[tuple[str, str]]) -> Markup:
    items = [tag("li", tag("a", name, href=address)) for name, address in links]
    return tag("nav", tag("ul", *items), aria_label="Sections and pages")


def _resource(name: str) -> Markup:
    return Markup(resources.files("pipelines.report").joinpath(name).read_text(encoding="utf-8"))

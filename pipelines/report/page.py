"""One HTML page for a run: self-contained, printable, readable offline.

text = page(gathered, made_at=time.time())
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from pipelines.lineage.query import Lineage
from pipelines.lineage.render import clock
from pipelines.lineage.view import RunView
from pipelines.report.markup import Child, Markup, tag
from pipelines.report.sections import data, model, run

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The page loads nothing from anywhere, and a browser holds it to that."""

NAMES = {
    "chain": "Chain",
    "data": "Data",
    "training": "Training",
    "candidates": "Candidates",
    "evaluation": "Evaluation",
    "mistakes": "Mistakes",
    "lineage": "Lineage",
    "environment": "Environment",
}


@dataclass(frozen=True)
class Gathered:
    """What a page is made from.

    Attributes:
        view: the run.
        why: a paragraph on the version it pushed; empty where it pushed none.
        lineage: of that version, else of all that the run made.
    """

    view: RunView
    why: str
    lineage: Lineage


def page(gathered: Gathered, *, made_at: float) -> str:
    """The whole page.

    Args:
        gathered: what to show.
        made_at: seconds since the epoch.
    """
    run_id = gathered.view.run.run_id
    parts = sections(gathered)
    header = run.header(gathered.view, gathered.why)
    footer = f"headrace report, {clock(made_at)}"
    return document(run_id, [header, *parts.values()], _navigation(list(parts)), footer)


def sections(gathered: Gathered) -> dict[str, Markup]:
    """Name -> section, those left out that would be empty."""
    view = gathered.view
    parts = {
        "chain": run.chain(view),
        "data": data.data_section(view),
        "training": model.training(view),
        "candidates": model.candidates(view),
        "evaluation": model.evaluation(view),
        "mistakes": model.mistakes(view),
        "lineage": run.lineage(gathered.lineage),
        "environment": run.environment(view),
    }
    return {name: part for name, part in parts.items() if part}


def document(title: str, content: Sequence[Child], navigation: Markup, footer: str) -> str:
    """A page with its styles and script in it.

    Args:
        title: in the browser's tab.
        content: what stands in `main`.
        navigation: above it.
        footer: below it.
    """
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        navigation,
        tag("main", *content, id="content"),
        tag("footer", footer),
        tag("script", _resource("page.js")),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("title", f"{title} · Headrace"),
        # An empty icon: browsers would ask for one beside the file.
        tag("link", rel="icon", href="data:,"),
        tag("style", _resource("page.css")),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _navigation(names: Sequence[str]) -> Markup:
    links = [tag("li", tag("a", NAMES[name], href=f"#{name}")) for name in names]
    return tag("nav", tag("ul", *links), aria_label="Sections")


def _resource(name: str) -> Markup:
    return Markup(resources.files("pipelines.report").joinpath(name).read_text(encoding="utf-8"))

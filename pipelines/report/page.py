"""One HTML page for a run: self-contained, printable, readable offline.

text = page(view, why="...", tree="...", made_at=time.time())
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from pipelines.lineage.render import clock
from pipelines.lineage.view import RunView
from pipelines.report.markup import Markup, tag
from pipelines.report.sections import data, model, run, tuning

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The page loads nothing from anywhere, and a browser holds it to that."""

_NAMES = {
    "chain": "Chain",
    "data": "Data",
    "tuning": "Tuning",
    "training": "Training",
    "candidates": "Candidates",
    "evaluation": "Evaluation",
    "mistakes": "Mistakes",
    "lineage": "Lineage",
    "environment": "Environment",
}


def page(view: RunView, *, why: str, tree: str, made_at: float) -> str:
    """The whole page.

    Args:
        view: the run.
        why: a paragraph on the version it pushed; empty where it pushed none.
        tree: its lineage as `render.tree` gives it.
        made_at: seconds since the epoch.
    """
    parts = {
        "chain": run.chain(view),
        "data": data.data_section(view),
        "tuning": tuning.tuning(view),
        "training": model.training(view),
        "candidates": model.candidates(view),
        "evaluation": model.evaluation(view),
        "mistakes": model.mistakes(view),
        "lineage": run.lineage(view, tree),
        "environment": run.environment(view),
    }
    shown = {name: part for name, part in parts.items() if part}
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        _navigation(list(shown)),
        tag("main", run.header(view, why), *shown.values(), id="content"),
        tag("footer", f"headrace report, {clock(made_at)}"),
        tag("script", _resource("page.js")),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", f"{view.run.run_id} · Headrace"),
        # An empty icon: browsers would ask for one beside the file.
        tag("link", rel="icon", href="data:,"),
        tag("style", _resource("page.css")),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _navigation(names: Sequence[str]) -> Markup:
    links = [tag("li", tag("a", _NAMES[name], href=f"#{name}")) for name in names]
    return tag("nav", tag("ul", *links), aria_label="Sections")


def _resource(name: str) -> Markup:
    return Markup(resources.files("pipelines.report").joinpath(name).read_text(encoding="utf-8"))

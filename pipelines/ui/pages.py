"""Pages on one thing: a run, two runs, a lineage, a problem. The report's sections, with links between."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlencode

from pipelines.errors import HeadraceError
from pipelines.lineage.compare import compare
from pipelines.lineage.query import Lineage
from pipelines.lineage.render import clock
from pipelines.lineage.view import RunView
from pipelines.report.markup import Child, Markup, join, table, tag
from pipelines.report.page import NAMES, Gathered, sections
from pipelines.report.sections import run as run_sections
from pipelines.report.shell import document

_MENU = {"/": "Runs", "/models": "Models", "/lineage": "Lineage"}


def shell(title: str, *content: Child, inner: Sequence[tuple[str, str]] = ()) -> str:
    """A page with the menu; `inner` are links within it, as (address, text)."""
    links = [(text, address) for address, text in [*_MENU.items(), *inner]]
    main = tag("main", *content, id="content")
    return document(f"{title} · Headrace", links, main, "headrace ui, read-only")


def run_link(run_id: str) -> Markup:
    """To a run's page."""
    return tag("a", run_id, href=f"/runs/{quote(run_id, safe='')}")


def model_link(model: str, text: str = "") -> Markup:
    """To a model's page."""
    return tag("a", text or model, href=f"/models/{quote(model, safe='')}")


def lineage_link(target: str, direction: str, text: str) -> Markup:
    """To a lineage."""
    return tag("a", text, href=f"/lineage?{urlencode({'target': target, 'direction': direction})}")


def run(gathered: Gathered, now: float) -> str:
    """A run's report, with the way to its lineage."""
    found = gathered.view.run
    parts = sections(gathered)
    inner = [(f"#{name}", NAMES[name]) for name in parts]
    ways = tag(
        "p",
        lineage_link(found.run_id, "up", "What it was made from"),
        " · ",
        lineage_link(found.run_id, "down", "What came of it"),
    )
    header = run_sections.header(gathered.view, gathered.why)
    return shell(found.run_id, header, ways, *parts.values(), inner=inner)


def compared(first: RunView, second: RunView) -> str:
    """Two runs side by side: what differs, then figures and times of both."""
    views = (first, second)
    head = ("", *(view.run.run_id for view in views))
    differences = [
        (item.section, item.what, item.before or "-", item.after or "-") for item in compare(*views)
    ]
    return shell(
        "Two runs",
        tag("h1", "Two runs"),
        tag("p", run_link(first.run.run_id), " and ", run_link(second.run.run_id)),
        tag("h2", "What differs"),
        table(("", "what", *head[1:]), differences, caption="Causes before effects")
        if differences
        else tag("p", "Nothing differs but times and costs."),
        tag("h2", "What came of them"),
        table(head, list(_figures(views)), caption="Figures of both"),
        tag("h2", "Times"),
        table(
            head, list(_times(views)), caption="Wall seconds of each node; cached ones took their work over"
        ),
    )


def _figures(views: Sequence[RunView]) -> list[list[Child]]:
    def row(name: str, values: Sequence[Child]) -> list[Child]:
        return [name, *("-" if value is None else value for value in values)]

    summaries = [view.summary for view in views]
    accuracies = [summary.get("accuracy") for summary in summaries]
    return [
        row("state", [view.run.state for view in views]),
        row("began", [clock(view.run.started) for view in views]),
        row("took", [_took(view) for view in views]),
        row("accuracy", [f"{value:.4f}" if value is not None else None for value in accuracies]),
        row("chosen candidate", [summary.get("chosen") for summary in summaries]),
        row("pushed version", [summary.get("pushed_version") for summary in summaries]),
    ]  # fmt: skip


def _took(view: RunView) -> str | None:
    return f"{view.run.ended - view.run.started:.0f} s" if view.run.ended else None


def _times(views: Sequence[RunView]) -> list[list[Child]]:
    names = dict.fromkeys(name for view in views for name in view.nodes)
    return [[name, *(_time(view, name) for view in views)] for name in names]


def _time(view: RunView, name: str) -> Child:
    node = view.nodes.get(name)
    wall = node.execution.properties.get("wall_s") if node else None
    if node is None or wall is None:
        return "-"
    return f"{float(wall):.1f}" + (" cached" if node.execution.state == "cached" else "")


def ask_lineage(target: str = "", direction: str = "up", depth: int | None = None) -> str:
    """The question alone."""
    return shell("Lineage", tag("h1", "Lineage"), _question(target, direction, depth))


def lineage(target: str, found: Lineage, depth: int | None) -> str:
    """The question and its answer."""
    return shell(
        f"Lineage of {target}",
        tag("h1", "Lineage"),
        _question(target, found.direction, depth),
        run_sections.lineage(found) or tag("p", "Nothing is recorded in this direction."),
        _runs_of(found),
    )


def _question(target: str, direction: str, depth: int | None) -> Markup:
    ways = (("up", "what made it"), ("down", "what came of it"))
    options = [tag("option", text, value=value, selected=value == direction) for value, text in ways]
    return tag(
        "form",
        tag("label", "Version, run, artifact or file ",
            tag("input", name="target", value=target, size=36, placeholder="digits@1", required=True)),
        tag("label", "Direction ", tag("select", *options, name="direction")),
        tag("label", "Depth ", tag("input", name="depth", value=depth, type="number", min=1, max=50)),
        tag("button", "Show"),
        action="/lineage",
        class_="ask",
    )  # fmt: skip


def _runs_of(found: Lineage) -> Child:
    runs = dict.fromkeys(item.run_id for item in found.executions.values() if item.run_id)
    items = [tag("li", run_link(name)) for name in list(runs)[:50]]
    return join([tag("h2", f"Its {len(runs)} runs"), tag("ul", *items)]) if runs else None


def problem(error: HeadraceError) -> str:
    """What went wrong, and what to do."""
    return shell(
        "Not shown",
        tag("h1", error.headline, class_="failure"),
        tag("p", error.place, class_="note"),
        tag("p", error.remedy),
    )

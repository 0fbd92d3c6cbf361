"""One HTML page for a run: self-contained, printable, readable offline.

text = page(gathered, made_at=time.time())
"""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.lineage.query import Lineage
from pipelines.lineage.render import clock
from pipelines.lineage.view import RunView
from pipelines.report import shell
from pipelines.report.markup import Markup, tag
from pipelines.report.sections import data, model, run, tuning

NAMES = {
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
    parts = sections(gathered)
    header = run.header(gathered.view, gathered.why)
    main = tag("main", header, *parts.values(), id="content")
    links = [(NAMES[name], f"#{name}") for name in parts]
    title = f"{gathered.view.run.run_id} · Headrace"
    return shell.document(title, links, main, f"headrace report, {clock(made_at)}")


def sections(gathered: Gathered) -> dict[str, Markup]:
    """Name -> section, those left out that would be empty."""
    view = gathered.view
    parts = {
        "chain": run.chain(view),
        "data": data.data_section(view),
        "tuning": tuning.tuning(view),
        "training": model.training(view),
        "candidates": model.candidates(view),
        "evaluation": model.evaluation(view),
        "mistakes": model.mistakes(view),
        "lineage": run.lineage(gathered.lineage),
        "environment": run.environment(view),
    }
    return {name: part for name, part in parts.items() if part}

"""One HTML page for a run: self-contained, printable, readable offline.

text = page(view, why="...", tree="...", made_at=time.time())
"""

from __future__ import annotations

from pipelines.lineage.render import clock
from pipelines.lineage.view import RunView
from pipelines.report import shell
from pipelines.report.markup import tag
from pipelines.report.sections import data, model, run

_NAMES = {
    "chain": "Chain",
    "data": "Data",
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
        "training": model.training(view),
        "candidates": model.candidates(view),
        "evaluation": model.evaluation(view),
        "mistakes": model.mistakes(view),
        "lineage": run.lineage(view, tree),
        "environment": run.environment(view),
    }
    shown = {name: part for name, part in parts.items() if part}
    main = tag("main", run.header(view, why), *shown.values(), id="content")
    links = [(_NAMES[name], name) for name in shown]
    return shell.document(f"{view.run.run_id} · Headrace", links, main, f"headrace report, {clock(made_at)}")

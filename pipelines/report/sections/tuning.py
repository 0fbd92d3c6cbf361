"""Section on the search for hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.lineage.view import RunView
from pipelines.report.markup import Child, Markup, table, tag
from pipelines.report.sections import section

_MAX_ROWS = 50


def tuning(view: RunView) -> Markup:
    """Every trial with its values, best first; empty where there was no search."""
    found: Mapping[str, Any] = view.summary.get("tuning") or {}
    if not found:
        return Markup("")
    names = list(found["values"])
    rows: list[list[Child]] = [
        [f"{trial['score']:.4f}", *(_shown(trial["values"].get(name)) for name in names)]
        for trial in found["trials"][:_MAX_ROWS]
    ]
    told = (
        f"The best of {len(found['trials'])} trials ({found['oracle']}) by {found['objective']} on the "
        "validation split; the Trainer took its values."
    )
    return section(
        "tuning",
        "Tuning",
        tag("p", told),
        table((found["objective"], *names), rows, caption="Trials, best first"),
    )


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).removeprefix("json:")

"""The card of a pushed version, from what was recorded of it; nothing in it is made up.

    card = build(source, query.find_push(source, "digits", "3"))
    keep(workspace, "digits", "3")         # writes both forms to reports/

What the record no longer has is left out, or said to be missing.
"""

from __future__ import annotations

from pathlib import Path

from pipelines.cards import sections
from pipelines.cards.blocks import Card, html, markdown
from pipelines.cards.known import Known, known
from pipelines.lineage import query
from pipelines.lineage.open import record_of
from pipelines.lineage.source import Push, Source
from pipelines.report.write import write_page
from pipelines.workspace import Workspace


def build(source: Source, push: Push) -> Card:
    """The card of a version.

    Raises:
        NotFoundError: the run that pushed it is not recorded.
    """
    return of(known(source, push))


def of(found: Known, *, from_hub: bool = False) -> Card:
    """The card from what is known; `from_hub` where its reader has to fetch the files first."""
    push = found.push
    parts = [
        sections.what(found),
        sections.data(found),
        sections.metrics(found),
        sections.limits(found),
        sections.use(found, from_hub=from_hub),
        sections.origin(found),
    ]
    footer = f"Written by Headrace from the record of run {found.view.run.run_id}."
    return Card(f"{push.model}, version {push.version}", parts, footer)


def keep(workspace: Workspace, model: str, version: str) -> list[Path]:
    """Writes the card of a version to the workspace's reports, as Markdown and as HTML.

    Raises:
        NotFoundError: there is no such version, or its run is not recorded.
        WorkspaceError: the files cannot be written.
    """
    with record_of(workspace) as source:
        push = query.find_push(source, model, version)
        card = build(source, push)
    stem = workspace.reports / f"{push.model}-{push.version}.card"
    files = [stem.with_name(f"{stem.name}.md"), stem.with_name(f"{stem.name}.html")]
    for path, text in zip(files, (markdown(card), html(card)), strict=True):
        write_page(text, path)
    return files

"""Gathers a run's record and writes its page.

write(source, run, Path("report.html"), now=time.time())
"""

from __future__ import annotations

from pathlib import Path

from pipelines.errors import WorkspaceError
from pipelines.lineage import explain, models, query, render
from pipelines.lineage.source import Push, Source, model_of
from pipelines.lineage.store import RunRecord
from pipelines.lineage.view import RunView, view
from pipelines.report.page import page


def gather(source: Source, run: RunRecord) -> tuple[RunView, str, str]:
    """The run, a paragraph on what it pushed, and the lineage of that (else of all it made) as a tree."""
    seen = view(source, run)
    push = _push(source, seen)
    if push is None:
        target = query.Target("run", f"run {run.run_id}", (), run.run_id)
        return seen, "", render.tree(query.follow(source, target, "up"))
    target = query.Target("version", push.name, (push.artifact,))
    why = explain.why(push, seen, models.baseline_of(source, seen))
    return seen, why, render.tree(query.follow(source, target, "up"))


def _push(source: Source, seen: RunView) -> Push | None:
    """The version that the run pushed, or had pushed before."""
    pushed = seen.output("Pusher", "pushed_model")
    destination = str(pushed.properties.get("pushed_destination", "")) if pushed else ""
    if pushed is None or not destination:
        return None
    return source.push(model_of(destination), int(pushed.properties["pushed_version"]))


def write(gathered: tuple[RunView, str, str], target: Path, now: float) -> None:
    """Writes the report of a run.

    Raises:
        WorkspaceError: the file cannot be written.
    """
    seen, why, tree = gathered
    write_page(page(seen, why=why, tree=tree, made_at=now), target)


def write_page(text: str, target: Path) -> None:
    """Writes a page, whole or not at all.

    Raises:
        WorkspaceError: the file cannot be written.
    """
    scratch = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(target)
    except OSError as error:
        raise WorkspaceError(
            f"The report cannot be written: {error.strerror}",
            place=str(target),
            remedy="Name a file you may write to with -o.",
        ) from error

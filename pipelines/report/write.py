"""Gathers a run's record and writes its page.

write(source, run, Path("report.html"), now=time.time())
"""

from __future__ import annotations

from pathlib import Path

from pipelines.errors import WorkspaceError
from pipelines.lineage import explain, models, query
from pipelines.lineage.records import RunRecord
from pipelines.lineage.source import Push, Source, model_of
from pipelines.lineage.view import RunView, view
from pipelines.report.page import Gathered, page


def gather(source: Source, run: RunRecord) -> Gathered:
    """Everything about a run that the record has."""
    seen = view(source, run)
    push = _push(source, seen)
    if push is None:
        target = query.Target("run", f"run {run.run_id}", (), run.run_id)
        return Gathered(seen, "", query.follow(source, target, "up"))
    target = query.Target("version", push.name, (push.artifact,))
    # Where all was cached, the run that pushed is another one.
    pusher = query.run_of(source, push)
    by = seen if pusher.run_id == run.run_id else view(source, pusher)
    why = explain.why(push, by, models.baseline_of(source, by))
    return Gathered(seen, why, query.follow(source, target, "up"))


def _push(source: Source, seen: RunView) -> Push | None:
    """The version that the run pushed, or had pushed before."""
    pushed = seen.output("Pusher", "pushed_model")
    destination = str(pushed.properties.get("pushed_destination", "")) if pushed else ""
    if pushed is None or not destination:
        return None
    return source.push(model_of(destination), int(pushed.properties["pushed_version"]))


def write(gathered: Gathered, target: Path, now: float) -> None:
    """Writes the report of a run.

    Raises:
        WorkspaceError: the file cannot be written.
    """
    write_page(page(gathered, made_at=now), target)


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

"""Pages that list: runs with a filter, models, and a model's history."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from pipelines.lineage.models import Version
from pipelines.lineage.query import Service
from pipelines.lineage.records import RunRecord
from pipelines.lineage.render import clock
from pipelines.lineage.store import COMPLETE, FAILED, INTERRUPTED, REFUSED, RUNNING
from pipelines.report import charts
from pipelines.report.markup import Child, Markup, table, tag
from pipelines.ui.pages import lineage_link, model_link, run_link, shell

_STATES = (COMPLETE, REFUSED, FAILED, INTERRUPTED, RUNNING)


def runs(found: Sequence[RunRecord], text: str, state: str, number: int, *, more: bool) -> str:
    """Runs, newest first, two of which can be chosen to be compared."""
    head = ("", "run", "state", "accuracy", "version", "began", "took")
    rows = [_run(run) for run in found]
    listed = tag(
        "form",
        table(head, rows, caption="Newest first"),
        tag("button", "Compare the two that are chosen"),
        action="/compare",
    )
    nothing = tag("p", "No run is like that." if text or state else "There are no runs yet.")
    return shell(
        "Runs",
        tag("h1", "Runs"),
        _filter(text, state),
        listed if rows else nothing,
        _turn(text, state, number, more=more),
    )


def _filter(text: str, state: str) -> Markup:
    options = [tag("option", name or "any", value=name, selected=name == state) for name in ("", *_STATES)]
    return tag(
        "form",
        tag("label", "Name holds ", tag("input", name="text", value=text, type="search")),
        tag("label", "State ", tag("select", *options, name="state")),
        tag("button", "Filter"),
        action="/",
        class_="ask",
    )


def _run(run: RunRecord) -> list[Child]:
    summary = run.details.get("summary") or {}
    accuracy = summary.get("accuracy")
    chosen = tag("input", type="checkbox", name="run", value=run.run_id, aria_label=f"Choose {run.run_id}")
    return [
        chosen,
        run_link(run.run_id),
        tag("span", run.state, class_=f"state {run.state}"),
        f"{accuracy:.4f}" if accuracy is not None else "",
        str(summary.get("pushed_version") or ""),
        clock(run.started),
        f"{run.ended - run.started:.0f} s" if run.ended else "",
    ]


def _turn(text: str, state: str, number: int, *, more: bool) -> Child:
    def link(page: int, said: str) -> Markup:
        return tag("a", said, href=f"/?{urlencode({'text': text, 'state': state, 'page': page})}")

    newer = link(number - 1, "Newer") if number > 1 else None
    older = link(number + 1, "Older") if more else None
    return tag("p", newer, " ", older) if newer or older else None


def models(found: Sequence[Version]) -> str:
    """Each model with its latest version."""
    rows = [
        (model_link(version.push.model), str(version.push.version), version.state, *_told(version))
        for version in found
    ]
    head = ("model", "latest version", "state", "accuracy", "kB", "pushed", "run")
    listed = table(head, rows, caption="Models by their latest version") if rows else None
    return shell("Models", tag("h1", "Models"), listed or tag("p", "No model has been pushed yet."))


def _told(version: Version) -> tuple[Child, ...]:
    return (
        f"{version.accuracy:.4f}" if version.accuracy is not None else "",
        f"{version.bytes / 1000:,.0f}" if version.bytes is not None else "",
        clock(version.push.at),
        run_link(version.run_id) if version.run_id else "",
    )


def model(name: str, versions: Sequence[Version], history: Sequence[Service]) -> str:
    """A model's versions, and which of them was in service from when on."""
    rows = [
        (str(item.push.version), item.state, *_told(item), lineage_link(item.push.name, "up", "lineage"))
        for item in versions
    ]
    accuracies = [item.accuracy for item in reversed(versions) if item.accuracy is not None]
    chart = (
        charts.lines({"accuracy": accuracies}, title="Accuracy from version to version", axis="version")
        if len(accuracies) > 1
        else None
    )
    head = ("version", "state", "accuracy", "kB", "pushed", "run", "")
    return shell(
        name,
        tag("h1", name),
        tag("div", chart, class_="charts") if chart else None,
        table(head, rows, caption="Versions, newest first"),
        tag("h2", "In service"),
        table(("from", "version", "", "because"), _services(history), caption="Newest first"),
    )


def _services(history: Sequence[Service]) -> list[tuple[Child, ...]]:
    return [(clock(item.since), str(item.version), item.how, item.reason) for item in reversed(history)]

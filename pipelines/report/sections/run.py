"""Sections on the run itself: what came of it, its chain, its lineage, its environment."""

from __future__ import annotations

import json
from typing import Any

from pipelines.lineage import render
from pipelines.lineage.compare import flat
from pipelines.lineage.query import Lineage
from pipelines.lineage.records import ArtifactRecord
from pipelines.lineage.render import clock
from pipelines.lineage.source import Execution
from pipelines.lineage.view import NodeView, RunView
from pipelines.report import graph
from pipelines.report.markup import Child, Markup, facts, fold, join, table, tag
from pipelines.report.sections import section

_LONG = 400
"""Characters of a property; more are cut."""


def header(view: RunView, why: str) -> Markup:
    """What came of the run, in a line of figures and a paragraph."""
    run, summary = view.run, view.summary
    accuracy = summary.get("accuracy")
    error = run.details.get("error") or {}
    failed = join([error.get("headline", ""), " ", tag("span", error.get("remedy", ""), class_="note")])
    return tag(
        "header",
        tag("p", f"{run.experiment} · run", class_="note"),
        tag("h1", run.run_id),
        tag(
            "div",
            _tile("state", run.state, run.state),
            _tile("accuracy", f"{accuracy:.4f}" if accuracy is not None else "-"),
            _tile("version", summary.get("pushed_version") or "-"),
            _tile("chosen", summary.get("chosen") or "-"),
            _tile("took", f"{run.ended - run.started:.0f} s" if run.ended else "-"),
            class_="tiles",
        ),
        tag("p", failed, class_="failure") if error else None,
        tag("p", f"Not pushed: {summary['refusal']}", class_="failure") if summary.get("refusal") else None,
        tag("p", why) if why else None,
    )


def _tile(name: str, value: str, state: str = "") -> Markup:
    return tag("div", tag("span", name), tag("b", value), class_=f"tile {state}".strip())


def chain(view: RunView) -> Markup:
    """The graph, and each node's properties behind it."""
    if not view.nodes:
        return Markup("")
    drawn = tag("div", graph.chain(view), class_="scroll")
    details = [_node(node) for node in view.nodes.values()]
    return section("chain", "Chain", tag("div", drawn, tag("div", *details), class_="split"))


def _node(node: NodeView) -> Markup:
    execution, maker = node.execution, node.maker
    word = graph.STATES.get(execution.state, ("", execution.state))[1]
    wall = execution.properties.get("wall_s")
    time = f", {float(wall):.1f} s" if wall is not None else ""
    work = f"run {maker.run_id}, {float(maker.properties.get('wall_s', 0)):.1f} s"
    made: list[tuple[str, Child]] = [("work done by", work)] if execution.state == "cached" else []
    places: list[tuple[str, Child]] = [
        (key, artifact.uri) for key, group in node.outputs.items() for artifact in group
    ]
    properties = sorted((key, _short(value)) for key, value in maker.properties.items())
    summary = join([tag("b", node.node), f" {word}{time}"])
    return fold(summary, facts([*made, *places, *properties]), id_=f"node-{node.node}")


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


def lineage(found: Lineage) -> Markup:
    """Where something comes from or leads to: drawn, each box's properties, and as a tree."""
    if not found.executions:
        return Markup("")
    text = tag("pre", render.tree(found), tabindex=0, role="region", aria_label="Lineage as a tree")
    as_tree = fold("As a tree, with all artifacts", text)
    title = tag("p", f"{found.target.title}: what {'made it' if found.direction == 'up' else 'came of it'}.")
    cut = tag("p", "There is more behind what is shown.", class_="note") if found.cut else None
    boxes = graph.size(found)
    if boxes > graph.MOST:
        many = tag("p", f"{boxes:,} executions and files are too many for a picture.", class_="note")
        return section("lineage", "Lineage", title, many, cut, as_tree)
    drawn = tag("div", graph.lineage(found), class_="scroll")
    details = [_made(found, execution) for execution in found.executions.values()]
    details += [_artifact(found.artifacts[number]) for number in graph.shown(found)]
    pair = tag("div", drawn, tag("div", *details), class_="split")
    return section("lineage", "Lineage", title, cut, pair, as_tree)


def _made(found: Lineage, execution: Execution) -> Markup:
    """An execution's properties, and what it read and wrote."""
    touched: list[tuple[str, Child]] = [
        (f"{'read' if edge.reads else 'wrote'} {edge.key}", render.describe(found.artifacts[edge.artifact]))
        for edge in dict.fromkeys(found.edges)
        if edge.execution == execution.id
    ]
    summary = join([tag("b", execution.node), f" {graph.note(execution)}"])
    told: list[tuple[str, Child]] = [("run", execution.run_id), ("began", clock(execution.started))]
    properties = sorted((key, _short(value)) for key, value in execution.properties.items())
    return fold(summary, facts([*told, *touched, *properties]), id_=f"lineage-e{execution.id}")


def _artifact(artifact: ArtifactRecord) -> Markup:
    summary = join([tag("b", artifact.type), f" {render.describe(artifact).partition(' [')[0]}"])
    properties = sorted((key, _short(value)) for key, value in artifact.properties.items())
    return fold(summary, facts([("place", artifact.uri), *properties]), id_=f"lineage-a{artifact.id}")


def environment(view: RunView) -> Markup:
    """Who, where, on what; costs, settings and packages."""
    found, details = view.surroundings, view.run.details
    dirty = " with uncommitted changes" if found.get("git_dirty") else ""
    commit = found.get("git_commit")
    told = facts(
        [
            ("began", clock(view.run.started)),
            ("ended", clock(view.run.ended) if view.run.ended else None),
            ("user", found.get("user")),
            ("host", found.get("host")),
            ("device", found.get("device")),
            ("commit", f"{commit}{dirty}" if commit else None),
            ("environment", found.get("environment_digest")),
            ("runner", details.get("runner")),
        ]
    )
    settings = [(key, json.dumps(value)) for key, value in sorted(flat(view.config).items())]
    packages = sorted(view.packages.items())
    return section(
        "environment",
        "Environment",
        told,
        _costs(view),
        fold(
            f"{len(settings)} settings",
            table(("setting", "value"), settings, caption="Settings"),
        ),
        fold(
            f"{len(packages)} packages",
            table(("package", "version"), packages, caption="Packages"),
        ),
    )


def _costs(view: RunView) -> Child:
    rows = [
        (
            node.node,
            *(_figure(node.execution.properties.get(key)) for key in ("wall_s", "cpu_s", "peak_memory_mb")),
            _figure(node.execution.properties.get("examples_per_s")),
        )
        for node in view.nodes.values()
    ]
    head = ("node", "wall s", "CPU s", "peak MiB", "examples/s")
    return table(head, rows, caption="What each node cost in this run") if rows else None


def _figure(value: Any) -> str:
    return f"{float(value):,.1f}" if isinstance(value, int | float) else ""

"""The sections of a report; each takes what it shows, and is empty where that was not recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.evaluation import ACCURACY, BASELINE, CANDIDATE
from pipelines.lineage.compare import flat
from pipelines.lineage.render import clock
from pipelines.lineage.view import NodeView, RunView
from pipelines.report import charts, data, graph, judged
from pipelines.report.markup import Child, Markup, facts, fold, join, table, tag

OVERALL = "overall"
_MAX_MATRIX = 20
_MAX_CONFUSIONS = 30
_MAX_SHIFTS = 30
_LONG = 400


def section(id_: str, title: str, *content: Child) -> Markup:
    """A section with its heading; nothing where there is no content."""
    if not any(content):
        return Markup("")
    heading = tag("h2", title, id=f"{id_}-title")
    return tag("section", heading, *content, id=id_, aria_labelledby=f"{id_}-title")


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


def data_section(view: RunView) -> Markup:
    """Examples per split and class, input files, statistics, anomalies."""
    examples = view.summary.get("examples") or {}
    if not examples:
        return Markup("")
    sizes = ", ".join(f"{count:,} {name}" for name, count in examples.items())
    found = data.anomalies(view)
    checked = view.output("ExampleValidator", "anomalies") is not None
    good = tag("p", "ExampleValidator found no anomalies.") if checked else None
    anomalies = [(item.feature, item.split, item.text) for item in found]
    return section(
        "data",
        "Data",
        tag("p", f"Examples: {sizes}."),
        table(("feature", "split", "anomaly"), anomalies, caption="Anomalies") if found else good,
        _classes(view),
        _statistics(view),
        _shifts(view),
        _files(view),
    )


def _classes(view: RunView) -> Child:
    report = view.output("ExampleGen", "report")
    path = Path(report.uri, "report.json") if report else None
    if path is None or not path.exists():
        return None
    counts: Mapping[str, Mapping[str, int]] = json.loads(path.read_text())["counts"]
    names = sorted({name for labels in counts.values() for name in labels}, key=judged.natural)
    if not names:
        return None
    rows = [(name, *(f"{counts[split].get(name, 0):,}" for split in counts)) for name in names]
    written = table(("class", *counts), rows, caption="Examples per class")
    return written if len(names) <= _MAX_MATRIX else fold(f"{len(names)} classes", written)


def _statistics(view: RunView) -> Child:
    rows = [
        (row.feature, row.split, row.kind, f"{row.missing:.1%}", row.values) for row in data.statistics(view)
    ]
    head = ("feature", "split", "type", "missing", "values")
    return table(head, rows, caption="Statistics by StatisticsGen") if rows else None


def _shifts(view: RunView) -> Child:
    """What DataGate measured: drift against earlier data, skew between splits."""
    artifact = view.output("DataGate", "report")
    path = Path(artifact.uri, "report.json") if artifact else None
    shifts = json.loads(path.read_text()).get("shifts", []) if path and path.exists() else []
    if not shifts:
        return None
    shifts.sort(key=lambda row: row["limit"] - row["value"])
    rows = [
        (row["feature"], row["kind"], row["measure"], f"{row['value']:.3f}", f"{row['limit']:g}")
        for row in shifts[:_MAX_SHIFTS]
    ]
    caption = "Drift and skew as DataGate measured them, the nearest to its limit first"
    return table(("feature", "kind", "measure", "distance", "limit"), rows, caption=caption)


def _files(view: RunView) -> Child:
    rows = [
        (
            file.uri,
            f"{int(file.properties.get('bytes', 0)):,}",
            f"{int(file.properties.get('records', 0)):,}",
            str(file.properties.get("sha256", ""))[:16],
        )
        for file in view.input_files
    ]
    if not rows:
        return None
    return fold(
        f"{len(rows)} input files", table(("file", "bytes", "records", "sha256"), rows, caption="Input files")
    )


def training(view: RunView) -> Markup:
    """A chart per metric, training beside validation."""
    artifact = view.output("Trainer", "model_run")
    path = Path(artifact.uri, "history.json") if artifact else None
    if path is None or not path.exists():
        return Markup("")
    report = json.loads(path.read_text())
    history: Mapping[str, Sequence[float]] = report.get("history", {})
    pictures = [
        charts.lines(
            {key: history[key] for key in (name, f"val_{name}") if key in history},
            title=f"{name} per epoch",
            mark=report.get("best_epoch"),
        )
        for name in history
        if not name.startswith("val_")
    ]
    told = facts(
        [
            ("parameters", f"{report['parameters']:,}" if "parameters" in report else None),
            ("epochs", report.get("epochs")),
            ("kept", report.get("best_epoch")),
            ("examples per second", report.get("examples_per_second")),
            ("seed", view.fact("Trainer", "seed")),
        ]
    )
    return section("training", "Training", told, tag("div", *pictures, class_="charts"))


def candidates(view: RunView) -> Markup:
    """Size against latency of each candidate, and the verdicts."""
    rows = view.summary.get("candidates") or []
    if not rows:
        return Markup("")
    chosen = view.summary.get("chosen")
    points = [
        charts.Point(
            row["name"],
            row["figures"]["size_bytes"] / 1000,
            row["figures"]["latency_ms_p50"],
            f"{row['figures']['accuracy']:.1%}",
            chosen=row["name"] == chosen,
            hollow=not row["qualified"],
        )
        for row in rows
        if row["figures"]
    ]
    picture = (
        charts.scatter(points, x="size, kB", y="latency, ms", title="Candidates: size, latency and accuracy")
        if points
        else None
    )
    legend = "Ringed: chosen. Hollow: did not qualify. Left and down is better."
    listed = [_candidate(row, chosen) for row in rows]
    head = ("candidate", "size kB", "batch 1 ms", "accuracy", "agreement", "drop at most", "verdict")
    return section(
        "candidates",
        "Candidates",
        tag("p", f"{chosen}: {view.summary.get('reason')}."),
        tag("div", picture, class_="charts"),
        tag("p", legend, class_="note"),
        table(head, listed, caption="Candidates as they were judged"),
    )


def _candidate(row: Mapping[str, Any], chosen: Any) -> list[Child]:
    name = tag("b", f"{row['name']} ✓") if row["name"] == chosen else row["name"]
    figures = row["figures"]
    if not figures:
        return [name, "-", "-", "-", "-", "-", row["reason"]]
    return [
        name,
        f"{figures['size_bytes'] / 1000:,.0f}",
        f"{figures['latency_ms_p50']:.2f}",
        f"{figures['accuracy']:.4f}",
        f"{figures['agreement']:.4f}",
        f"{row['drop_bound']:.2f}" if row["drop_bound"] is not None else "-",
        row["reason"],
    ]


def evaluation(view: RunView) -> Markup:
    """Accuracy per slice against its threshold and the baseline."""
    artifact = view.output("Evaluator", "evaluation")
    path = Path(artifact.uri, "summary.json") if artifact else None
    if path is None or not path.exists():
        return Markup("")
    found = json.loads(path.read_text())
    slices, before = found["metrics"][CANDIDATE], found["metrics"].get(BASELINE, {})
    limits = view.config.get("evaluation", {})
    rows = [
        _slice(name, slices[name], before.get(name, {}), limits)
        for name in sorted(
            slices, key=lambda name: (name != OVERALL, *judged.natural(name.partition("=")[2]))
        )
    ]
    drop = limits.get("max_drop")
    rule = (
        f"All examples: at least {limits.get('min_accuracy')}, and at most {drop} below the baseline. "
        f"Each slice: at least {limits.get('min_class_accuracy')}."
    )
    failures = [tag("li", failure) for failure in found["failures"]]
    head = ("slice", "examples", "accuracy", "", "at least", "baseline", "change")
    return section(
        "evaluation",
        "Evaluation",
        tag(
            "p",
            "Blessed." if found["blessed"] else "Not blessed:",
            class_=None if found["blessed"] else "failure",
        ),
        tag("ul", *failures) if failures else None,
        tag("p", rule, class_="note"),
        table(head, rows, caption="Accuracy on the test split"),
    )


def _slice(
    name: str, values: Mapping[str, float], before: Mapping[str, float], limits: Mapping[str, Any]
) -> list[Child]:
    value, earlier = values.get(ACCURACY), before.get(ACCURACY)
    if value is None:
        return [name, "-", "-", "", "", "", ""]
    limit = limits.get("min_accuracy" if name == OVERALL else "min_class_accuracy")
    short = limit is not None and value < limit
    text = f"{value:.4f}" + (" ✕" if short else "")
    return [
        name,
        f"{values.get('example_count', 0):,.0f}",
        tag("b", text, class_="failure") if short else text,
        charts.bar(value, limit),
        f"{limit:g}" if limit else "",
        f"{earlier:.4f}" if earlier is not None else "",
        f"{value - earlier:+.4f}" if earlier is not None else "",
    ]


def mistakes(view: RunView) -> Markup:
    """The confusion matrix, and the mistakes that the model was surest of."""
    found = judged.read(view)
    if found is None:
        return Markup("")
    total = sum(found.confusion.values())
    shown = [_mistake(mistake) for mistake in found.mistakes]
    return section(
        "mistakes",
        "Mistakes",
        tag(
            "p",
            f"Of {total:,} examples of the {found.split} split, on which candidates were judged, "
            f"{found.wrong:,} were wrong.",
        ),
        _matrix(found) if len(found.classes) <= _MAX_MATRIX else _confusions(found),
        tag("h3", "Those it was surest of") if shown else None,
        tag("ul", *shown, class_="mistakes") if shown else None,
    )


def _matrix(found: judged.Judged) -> Markup:
    most = max(found.confusion.values(), default=1)
    rows = [[label, *(_cell(found.confusion.get((label, p), 0), label == p, most) for p in found.classes)]
            for label in found.classes]  # fmt: skip
    caption = "Confusion: rows are labels, columns predictions"
    return tag("div", table(("", *found.classes), rows, caption=caption), class_="matrix")


def _cell(count: int, right: bool, most: int) -> Child:
    if not count:
        return ""
    strength = round(15 + 70 * count / most) if right else 85
    return tag("span", count, class_="right" if right else "wrong", style=f"--strength:{strength}%")


def _confusions(found: judged.Judged) -> Markup:
    wrong = [(pair, count) for pair, count in found.confusion.items() if pair[0] != pair[1]]
    wrong.sort(key=lambda item: -item[1])
    rows = [(label, predicted, count) for (label, predicted), count in wrong[:_MAX_CONFUSIONS]]
    return table(("label", "predicted", "examples"), rows, caption="Most frequent confusions")


def _mistake(mistake: judged.Mistake) -> Markup:
    said = f"{mistake.label} taken for {mistake.predicted} ({mistake.score:.0%})"
    picture = tag("img", src=mistake.image, alt=f"An example of {mistake.label}") if mistake.image else None
    text = tag("p", mistake.text) if mistake.text and not mistake.image else None
    origin = tag("p", Path(mistake.origin).name, class_="note") if mistake.origin else None
    return tag("li", picture, text, tag("p", said), origin)


def lineage(view: RunView, tree: str) -> Markup:
    """What the run's results were made from."""
    made = tag("pre", tree, tabindex=0, role="region", aria_label="Lineage as a tree")
    return section("lineage", "Lineage", made) if tree else Markup("")


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

"""Sections on the model: training, candidates, evaluation, mistakes."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pipelines.evaluation import (
    ACCURACY,
    BASELINE,
    CANDIDATE,
    MEAN_ABSOLUTE_ERROR,
    MEAN_SQUARED_ERROR,
)
from pipelines.lineage.view import RunView
from pipelines.report import charts, judged
from pipelines.report.markup import Child, Markup, facts, table, tag
from pipelines.report.sections import MANY_CLASSES, section

OVERALL = "overall"
_MAX_CONFUSIONS = 30
_SALIENCY_NOTE = "Red: what spoke for the class that it was taken for (Grad-CAM of the trained model)."


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
            *_machine(view),
        ]
    )
    return section("training", "Training", told, tag("div", *pictures, class_="charts"))


def _machine(view: RunView) -> list[tuple[str, Child]]:
    """What it was trained on, and what was chosen for that."""
    fact = functools.partial(view.fact, "Trainer")
    share, reasons = fact("input_wait_share"), {name: fact(f"{name}_reason") for name in ("precision", "xla")}
    xla = None if fact("xla") is None else f"{fact('xla')} ({reasons['xla']})"
    replicas = fact("replicas")
    return [
        ("device", fact("device") if replicas in (None, 1) else f"{replicas} times {fact('device')}"),
        ("precision", f"{fact('precision')} ({reasons['precision']})" if fact("precision") else None),
        ("XLA", xla),
        ("waiting for input", None if share is None else f"{share:.1%}"),
        ("begun with model", fact("warm_start_model_id")),
    ]


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
            median(row["figures"]["latency_ratios"]),
            _quality(row["figures"]),
            chosen=row["name"] == chosen,
            hollow=not row["qualified"],
        )
        for row in rows
        if row["figures"]
    ]
    picture = (
        charts.scatter(
            points,
            x="size, kB",
            y="latency, of the original's",
            title="Candidates: size, latency and accuracy",
        )
        if points
        else None
    )
    legend = (
        "Ringed: chosen. Hollow: did not qualify. Left and down is better. Latencies are of single examples, "
        "as shares of the trained model's in the same rounds: a machine's load changes between candidates."
    )
    tried = [row for row in rows if row.get("state") != "left_out"]
    listed = [_candidate(row, chosen) for row in tried]
    head = (
        "candidate", "size kB", "batch 1 ms", "of it", "p95 ms", "per s at 32", "load ms", "peak MB",
        "accuracy or error", "agreement", "drop at most", "verdict",
    )  # fmt: skip
    return section(
        "candidates",
        "Candidates",
        tag("p", f"{chosen}: {view.summary.get('reason')}."),
        tag("div", picture, class_="charts"),
        tag("p", legend, class_="note"),
        table(head, listed, caption="Candidates as they were judged"),
        *[tag("p", line, class_="note") for line in _left_open(rows, chosen)],
    )


def _left_open(rows: Sequence[Mapping[str, Any]], chosen: Any) -> list[str]:
    """What was not tried, and on which slices the chosen one could not be bounded."""
    lines = []
    left = [row for row in rows if row.get("state") == "left_out"]
    if left:
        lines.append(f"Left out: {', '.join(row['name'] for row in left)} ({left[0]['reason']}).")
    slices = next((row.get("slices") or [] for row in rows if row["name"] == chosen), [])
    small = [item for item in slices if item["needed"]]
    if small:
        sizes = ", ".join(f"{item['name']} ({item['examples']})" for item in small)
        lines.append(f"Too small to bound a drop there ({small[0]['needed']} examples needed): {sizes}.")
    return lines


def _quality(figures: Mapping[str, Any]) -> str:
    """Accuracy, or the mean absolute error of a regression."""
    errors = figures.get("errors")
    return f"{errors['mean_absolute']:.4g}" if errors else f"{figures['accuracy']:.4f}"


def _figure(figures: Mapping[str, Any], name: str, digits: int) -> str:
    """A figure that reports of earlier versions may lack."""
    return f"{figures[name]:,.{digits}f}" if name in figures else "-"


def _candidate(row: Mapping[str, Any], chosen: Any) -> list[Child]:
    name = tag("b", f"{row['name']} ✓") if row["name"] == chosen else row["name"]
    figures = row["figures"]
    if not figures:
        return [name, *["-"] * 10, row["reason"]]
    return [
        name,
        f"{figures['size_bytes'] / 1000:,.0f}",
        f"{figures['latency_ms_p50']:.2f}",
        f"{median(figures['latency_ratios']):.2f}",
        _figure(figures, "latency_ms_p95", 2),
        _figure(figures, "throughput", 0),
        _figure(figures, "load_ms", 0),
        _figure(figures, "peak_memory_mb", 0),
        _quality(figures),
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
    failures = [tag("li", failure) for failure in found["failures"]]
    regression = MEAN_ABSOLUTE_ERROR in slices[OVERALL]
    return section(
        "evaluation",
        "Evaluation",
        tag(
            "p",
            "Blessed." if found["blessed"] else "Not blessed:",
            class_=None if found["blessed"] else "failure",
        ),
        tag("ul", *failures) if failures else None,
        tag("p", _error_rule(limits) if regression else _accuracy_rule(limits), class_="note"),
        _errors(slices[OVERALL], before.get(OVERALL, {}))
        if regression
        else table(_SLICE_HEAD, rows, caption="Accuracy on the test split: bars with the threshold"),
        _confusion(path.parent),
    )


_SLICE_HEAD = ("slice", "examples", "accuracy", "", "at least", "baseline", "change")


def _accuracy_rule(limits: Mapping[str, Any]) -> str:
    return (
        f"All examples: at least {limits.get('min_accuracy')}, and at most {limits.get('max_drop')} below "
        f"the baseline. Each slice: at least {limits.get('min_class_accuracy')}."
    )


def _error_rule(limits: Mapping[str, Any]) -> str:
    ceiling = limits.get("max_error")
    at_most = f"at most {ceiling:g}, and " if ceiling is not None else ""
    rise = limits.get("max_error_rise", 0.0)
    return f"Mean absolute error: {at_most}at most {rise:.0%} over the baseline's."


def _errors(values: Mapping[str, float], before: Mapping[str, float]) -> Markup:
    rows = [
        [name.replace("_", " "), f"{values[name]:.5g}", f"{before[name]:.5g}" if name in before else ""]
        for name in (MEAN_ABSOLUTE_ERROR, MEAN_SQUARED_ERROR)
        if name in values
    ]
    return table(("metric", "value", "baseline"), rows, caption="Errors on the test split")


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
        charts.bar(value, limit, earlier),
        f"{limit:g}" if limit else "",
        f"{earlier:.4f}" if earlier is not None else "",
        f"{value - earlier:+.4f}" if earlier is not None else "",
    ]


def mistakes(view: RunView) -> Markup:
    """The mistakes that the model was surest of, with their images."""
    found = judged.read(view)
    if found is None:
        return Markup("")
    shown = [_mistake(mistake) for mistake in found.mistakes]
    return section(
        "mistakes",
        "Mistakes",
        tag(
            "p",
            f"Of {found.total:,} examples of the {found.split} split, on which candidates were judged, "
            f"{found.wrong:,} were wrong.",
        ),
        tag("h3", "Those it was surest of") if shown else None,
        tag("p", _SALIENCY_NOTE, class_="note") if any(item.saliency for item in found.mistakes) else None,
        tag("ul", *shown, class_="mistakes") if shown else None,
    )


Counts = Mapping[tuple[str, str], int]


def _confusion(evaluation: Path) -> Child:
    """Labels against predictions on the test split; of many classes the most frequent mistakes."""
    path = evaluation / "confusion.jsonl"
    if not path.exists():
        return None
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    counts = {(row["label"], row["predicted"]): int(row["examples"]) for row in lines}
    classes = sorted({name for pair in counts for name in pair}, key=judged.natural)
    return _matrix(counts, classes) if len(classes) <= MANY_CLASSES else _confusions(counts)


def _matrix(counts: Counts, classes: Sequence[str]) -> Markup:
    most = max(counts.values(), default=1)
    rows = [
        [label, *(_cell(counts.get((label, name), 0), label == name, most) for name in classes)]
        for label in classes
    ]
    caption = "Confusion on the test split: rows are labels, columns predictions"
    return tag("div", table(("", *classes), rows, caption=caption), class_="matrix")


def _cell(count: int, right: bool, most: int) -> Child:
    if not count:
        return ""
    strength = round(15 + 70 * count / most) if right else 85
    return tag("span", count, class_="right" if right else "wrong", style=f"--strength:{strength}%")


def _confusions(counts: Counts) -> Markup:
    wrong = [(pair, count) for pair, count in counts.items() if pair[0] != pair[1]]
    wrong.sort(key=lambda item: -item[1])
    rows = [(label, predicted, count) for (label, predicted), count in wrong[:_MAX_CONFUSIONS]]
    return table(
        ("label", "predicted", "examples"), rows, caption="Most frequent confusions on the test split"
    )


def _mistake(mistake: judged.Mistake) -> Markup:
    said = f"{mistake.label} taken for {mistake.predicted} ({mistake.score:.0%})"
    picture = tag("img", src=mistake.image, alt=f"An example of {mistake.label}") if mistake.image else None
    looked = tag("img", src=mistake.saliency, alt="Where the model looked") if mistake.saliency else None
    text = tag("p", mistake.text) if mistake.text and not mistake.image else None
    origin = tag("p", Path(mistake.origin).name, class_="note") if mistake.origin else None
    return tag("li", picture, looked, text, tag("p", said), origin)

"""Tables and lines that commands print of a run's outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from pipelines.summary import Summary

_MAX_CLASSES = 12
"""More of them are not listed by name."""


def print_summary(console: Console, summary: Summary) -> None:
    """Examples per split, candidates, metric against baseline, and what was pushed."""
    if summary.examples:
        sizes = ", ".join(f"{count:,} {split}" for split, count in summary.examples.items())
        console.print(f"Examples    {sizes}", highlight=False)
    if summary.classes:
        console.print(f"Classes     {_classes_line(summary.classes)}", highlight=False, soft_wrap=True)
    if summary.bad_records:
        records = "1 record" if summary.bad_records == 1 else f"{summary.bad_records} records"
        console.print(
            f"            {records} could not be used; see the quarantine of ExampleGen", style="yellow"
        )
    if summary.tuning:
        console.print(f"Tuned       {_tuning_line(summary.tuning)}", highlight=False, soft_wrap=True)
    if summary.candidates:
        console.print(candidate_table(summary.candidates, summary.chosen))
        console.print(f"Chosen      {summary.chosen}: {summary.reason}", highlight=False, soft_wrap=True)
    if summary.accuracy is not None:
        console.print(f"Accuracy    {_metric_line(summary)}", highlight=False, soft_wrap=True)
    if summary.error is not None:
        console.print(f"Error       {_error_line(summary)}", highlight=False, soft_wrap=True)
    for failure in summary.failures:
        console.print(f"            not met: {failure}", highlight=False, style="red")
    if summary.infra_figures:
        console.print(f"Validated   {_infra_line(summary.infra_figures)}", highlight=False, soft_wrap=True)
    if summary.infra_message:
        console.print(f"            not blessed: {summary.infra_message}", highlight=False, style="red")
    if summary.chosen or summary.pushed_version or summary.refusal:
        console.print(f"Pushed      {_push_line(summary)}", highlight=False, soft_wrap=True)
    if summary.in_service:
        console.print(f"In service  version {summary.in_service}", highlight=False)


def _classes_line(classes: Mapping[str, int]) -> str:
    if len(classes) <= _MAX_CLASSES:
        return ", ".join(f"{name} {count:,}" for name, count in classes.items())
    fewest = min(classes.items(), key=lambda item: item[1])
    return f"{len(classes)}, of {fewest[1]:,} ({fewest[0]}) to {max(classes.values()):,} examples"


def _metric_line(summary: Summary) -> str:
    text = f"{summary.accuracy:.4f} on the test split"
    if summary.baseline_accuracy is not None:
        text += f", against {summary.baseline_accuracy:.4f} of the latest blessed model"
    else:
        text += " (no earlier model to compare with)"
    if summary.worst_class:
        text += f"; worst class {summary.worst_class[0]!r} {summary.worst_class[1]:.4f}"
    return text


def _tuning_line(tuning: Mapping[str, Any]) -> str:
    values = ", ".join(f"{name}={_tuned_value(value)}" for name, value in tuning["values"].items())
    return (
        f"{values}: {tuning['objective']} {tuning['score']:.4f}, "
        f"the best of {len(tuning['trials'])} trials ({tuning['oracle']})"
    )


def _tuned_value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).removeprefix("json:")


def _error_line(summary: Summary) -> str:
    text = f"{summary.error:.4g} on the test split (mean absolute)"
    if summary.baseline_error is not None:
        return f"{text}, against {summary.baseline_error:.4g} of the latest blessed model"
    return f"{text} (no earlier model to compare with)"


def _infra_line(figures: Mapping[str, Any]) -> str:
    return (
        f"in {figures['server']}: cold load {figures['cold_load_s']:.1f} s, one example "
        f"{figures['p50_ms']:.1f} / {figures['p95_ms']:.1f} / {figures['p99_ms']:.1f} ms "
        f"(p50 / p95 / p99 of {figures['requests']}), {figures['memory_mb']:.0f} MiB"
    )


def _push_line(summary: Summary) -> str:
    if summary.pushed_version:
        when = "" if summary.pushed_now else " (nothing new: this model was pushed before)"
        since = f"; not in service: {summary.pushed_state}" if summary.pushed_state else ""
        return f"version {summary.pushed_version} in {summary.pushed_to}{when}{since}"
    if summary.refusal:
        return f"no; refused by {summary.refusal}"
    return "no; the Pusher was not part of this run"


def candidate_table(candidates: Sequence[Mapping[str, Any]], chosen: str) -> Table:
    """One row per candidate: size, latency and its ratio to the original, accuracy, verdict."""
    table = Table(box=box.SIMPLE_HEAD)
    for column, justify in _COLUMNS:
        table.add_column(column, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for candidate in candidates:
        if candidate["state"] == "left_out":
            continue  # `headrace candidates` lists them
        name = f"[bold]{candidate['name']} *[/bold]" if candidate["name"] == chosen else candidate["name"]
        table.add_row(name, *_figures(candidate), candidate["reason"])
    return table


_COLUMNS = (
    ("candidate", "left"),
    ("size kB", "right"),
    ("batch 1 ms", "right"),
    ("latency ratio", "right"),
    ("accuracy or error", "right"),
    ("agree", "right"),
    ("drop at most", "right"),
    ("verdict", "left"),
)


def quality(figures: Mapping[str, Any]) -> str:
    """A candidate's accuracy, or the mean absolute error of a regression."""
    errors = figures.get("errors")
    return f"{errors['mean_absolute']:.4g}" if errors else f"{figures['accuracy']:.4f}"


def _figures(candidate: Mapping[str, Any]) -> tuple[str, ...]:
    figures = candidate["figures"]
    if figures is None:
        return ("-",) * (len(_COLUMNS) - 2)
    return (
        f"{figures['size_bytes'] / 1000:.0f}",
        f"{figures['latency_ms_p50']:.2f}",
        f"{median(figures['latency_ratios']):.2f}",
        quality(figures),
        f"{figures['agreement']:.4f}",
        f"{candidate['drop_bound']:.2f}",
    )

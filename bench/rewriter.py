"""What the Rewriter gets out of trained models: the smallest and the fastest qualified candidate.

    python -m bench.rewriter --workspace workspace --run latest [--run OTHER ...] [--repeat 10]

Each run's own trained model, examples and limits are used. Sizes and batch-1
latencies are those of the trained SavedModel and of the candidate, measured by
turns in one process. `--repeat` judges again, for latency and with the run's
own target and candidates, and tells how often the choice is the same.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from bench.common import Figure, print_table, report
from bench.prove_rewriter import of_run
from components import subprocesses
from components.rewriter import catalogue, rewrite
from components.rewriter.catalogue import Target
from components.rewriter.choose import Verdict

_LIMITS = subprocesses.Limits(900.0, 8000.0)
_GOALS = {"size": "<= 0.2", "latency": "<= 0.35"}
_TARGETS: tuple[Target, ...] = ("tf_serving_tflite", "triton")
"""Together these load everything that is there."""


def job_of(workspace: Path, run: str, scratch: Path) -> tuple[str, rewrite.Job]:
    """A run's experiment, and the rewrite that it did."""
    found = of_run(workspace, run, scratch)
    task = found.task
    return found.experiment, rewrite.Job(
        model_uri=task.model_uri,
        examples_uri=task.examples_uri,
        split=task.split,
        calibration_split=task.calibration_split,
        label=task.label,
        slices=task.slices,
        contract=task.contract,
        candidates=found.candidates,
        target=found.target,
        policy=found.policy,
        max_examples=task.max_examples,
        limits=_LIMITS,
        keep=0,
        scratch=scratch,
    )


def all_verdicts(template: rewrite.Job, names: Sequence[str]) -> list[Verdict]:
    """Every technique of every target, judged by size; latency is measured beside."""
    verdicts: dict[str, Verdict] = {}
    for target in _TARGETS:
        wanted = [name for name in catalogue.techniques_for(target) if not names or name in names]
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            policy = replace(template.policy, objective="size")
            outcome = rewrite.rewrite(
                replace(template, candidates=wanted, target=target, policy=policy, scratch=Path(scratch))
            )
        for verdict in outcome.verdicts:
            if verdict.state != "left_out":
                verdicts.setdefault(verdict.name, verdict)
    return list(verdicts.values())


def figures_of(experiment: str, verdicts: Sequence[Verdict]) -> list[Figure]:
    """Smallest and fastest of those whose quality qualifies."""
    name = experiment.replace("-", "_")
    # By what they lose: the fastest need not be smaller, nor the smallest faster.
    rows = [item for item in verdicts if item.sound and item.figures and item.name != catalogue.IDENTITY]
    if not rows:
        return []
    original = next(item.figures for item in verdicts if item.name == catalogue.IDENTITY and item.figures)
    smallest = min(rows, key=lambda item: item.figures.size_ratio if item.figures else 1.0)
    fastest = min(rows, key=_latency)
    assert smallest.figures and fastest.figures
    size, latency = smallest.figures, fastest.figures
    sizes = [size.size_bytes / 1000], [original.size_bytes / 1000]
    mine = [latency.latency_ms_p50] * len(latency.latency_ratios)
    theirs = [latency.latency_ms_p50 / ratio for ratio in latency.latency_ratios]
    return [
        Figure.of(f"smallest_size_{name}", *sizes, f"kB, {smallest.name}", _GOALS["size"]),
        Figure.of(f"fastest_latency_{name}", mine, theirs, f"ms, {fastest.name}", _GOALS["latency"]),
    ]


def _latency(verdict: Verdict) -> float:
    return median(verdict.figures.latency_ratios) if verdict.figures else float("inf")


def show(experiment: str, verdicts: Sequence[Verdict]) -> None:
    """A table of all techniques."""
    rows = [(item.name, *_told(item), item.reason[:70]) for item in verdicts]
    columns = ("candidate", "of size", "of latency", "accuracy", "agree", "drop <=", "verdict")
    print_table(f"{experiment}, by size", columns, rows)


def _told(verdict: Verdict) -> tuple[str, ...]:
    seen = verdict.figures
    if seen is None:
        return ("-",) * 5
    return (
        f"{seen.size_ratio:.2f}",
        f"{_latency(verdict):.2f}",
        f"{seen.accuracy:.4f}",
        f"{seen.agreement:.4f}",
        f"{verdict.drop_bound:.2f}",
    )


def stability(template: rewrite.Job, times: int) -> Counter[str]:
    """Choices of repeated judgements for latency, on the run's own target."""
    chosen: Counter[str] = Counter()
    for _ in range(times):
        with tempfile.TemporaryDirectory() as scratch:
            policy = replace(template.policy, objective="latency")
            chosen[rewrite.rewrite(replace(template, policy=policy, scratch=Path(scratch))).chosen] += 1
    return chosen


def main() -> None:
    """Prints tables and figures, and writes them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workspace", type=Path, default=Path("workspace"))
    parser.add_argument("--run", action="append", help="an id, a unique prefix, or latest; repeatable")
    parser.add_argument("--candidates", default="", help="names with commas between; all where not given")
    parser.add_argument("--repeat", type=int, default=0, help="judge so many times more, for the choice")
    parser.add_argument("--quick", action="store_true", help="TFLite, ONNX and float16 only")
    asked = parser.parse_args()
    quick = ["float16", "tflite", "tflite_dynamic", "tflite_int8", "onnx"] if asked.quick else []
    names = [name for name in asked.candidates.split(",") if name] or quick
    figures: list[Figure] = []
    facts: dict[str, object] = {}
    for run in asked.run or ["latest"]:
        with tempfile.TemporaryDirectory() as scratch:
            experiment, template = job_of(asked.workspace, run, Path(scratch))
            verdicts = all_verdicts(template, names)
            show(experiment, verdicts)
            figures += figures_of(experiment, verdicts)
            facts[experiment] = [json.loads(json.dumps(item.to_json())) for item in verdicts]
            if asked.repeat:
                counts = stability(template, asked.repeat)
                facts[f"choices_{experiment}"] = {"target": template.target, **counts}
                print(f"{experiment}, {template.target}: choices of {asked.repeat}: {dict(counts)}")
    report("rewriter", figures, facts)


if __name__ == "__main__":
    main()

"""A candidate beside the model in service, on the same labelled examples.

    results = compare(Task(candidate=..., current=..., sets=..., label="label", slices=["day=Sunday"]))
    faults(results, limits)             # why it must not take the other's place

Judged by bounds of the paired difference, never by the two averages: what has
become worse beyond doubt is refused, and so is what cannot be shown to have
kept within the limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from components.rewriter.bounds import drop_lower_bound, drop_upper_bound, examples_needed, mean_upper_bound

WHOLE = "all"
_BATCH = 32
_FAR = 1e9
"""An error beyond any: of an answer that is no number."""


@dataclass(frozen=True)
class Task:
    """What to compare.

    Attributes:
        candidate: folder of a servable artifact.
        current: version folder in a serving root.
        sets: name -> (folder of Examples, splits).
        label: feature with the true class, or of a regression the number.
        slices: `feature=value`.
        output: file that takes the results, as JSON.
    """

    candidate: str
    current: str
    sets: Mapping[str, tuple[str, Sequence[str]]]
    label: str
    slices: Sequence[str]
    output: str


@dataclass(frozen=True)
class Result:
    """One set of examples, or a slice of it.

    Attributes:
        of: the set's name.
        part: `all`, or `feature=value`.
        examples: compared.
        candidate: accuracy in [0, 1]; of a regression the mean absolute error.
        current: the same of the model in service.
        newly_wrong: examples that only the candidate gets wrong.
        newly_right: examples that only the candidate gets right.
        rise: of a regression, mean growth of the absolute error in percent; None else.
        rise_error: its standard error; None else.
        unknown: whether no example has the slice's feature.
    """

    of: str
    part: str
    examples: int
    candidate: float
    current: float
    newly_wrong: int = 0
    newly_right: int = 0
    rise: float | None = None
    rise_error: float | None = None
    unknown: bool = False


@dataclass(frozen=True)
class Limits:
    """Points of accuracy (or percent of the error) that may be lost, and how sure the bounds are."""

    max_drop: float
    max_slice_drop: float
    confidence: float


def faults(results: Sequence[Result], limits: Limits) -> list[str]:
    """Why the candidate must not go into service, in sentences."""
    return [sentence for result in results if (sentence := _fault(result, limits))]


def _fault(result: Result, limits: Limits) -> str:
    where = f"on the {result.of}" + ("" if result.part == WHOLE else f", {result.part}")
    if result.unknown:
        return f"{where}: no example has that feature"
    if not result.examples:
        return f"{where}: there are no examples" if result.part == WHOLE else ""
    low, high = bounds(result, limits.confidence)
    limit = limits.max_drop if result.part == WHOLE else limits.max_slice_drop
    unit = "points of accuracy" if result.rise is None else "percent of error"
    if low > 0:
        return (
            f"{where} it is worse: it loses {low:.1f} to {high:.1f} {unit} ({result.candidate:.4f} against "
            f"{result.current:.4f} on {result.examples} examples)"
        )
    enough = result.part == WHOLE or result.examples >= examples_needed(limit, limits.confidence)
    if high > limit and enough:
        return f"{where} it may lose up to {high:.1f} {unit}, over {limit:g}, on {result.examples} examples"
    return ""


def bounds(result: Result, confidence: float) -> tuple[float, float]:
    """Lower and upper one-sided bound of what is lost."""
    if result.rise is not None and result.rise_error is not None:
        high = mean_upper_bound(result.rise, result.rise_error, result.examples, confidence)
        return 2 * result.rise - high, high
    counts = (result.newly_wrong, result.newly_right, result.examples, confidence)
    return drop_lower_bound(*counts), drop_upper_bound(*counts)


def compare(task: Task) -> None:
    """Writes the results of a task; to be run in a process of its own, since it loads both models."""
    from components.serving import runtimes

    models = (runtimes.load(task.candidate), runtimes.load_version(Path(task.current)))
    found = [
        asdict(result)
        for name, (folder, splits) in task.sets.items()
        for result in _compare_set(name, _records(folder, splits), models, task)
    ]
    Path(task.output).write_text(json.dumps(found))


def read(path: Path) -> list[Result]:
    """Results that `compare` wrote."""
    return [Result(**item) for item in json.loads(path.read_text())]


def _records(folder: str, splits: Sequence[str]) -> list[bytes]:
    from components.serving.examples import read_split

    return [record for split in splits for record in read_split(folder, split)]


def _compare_set(name: str, records: Sequence[bytes], models: Sequence[Any], task: Task) -> Iterator[Result]:
    if not records:
        yield Result(name, WHOLE, 0, 0.0, 0.0)
        return
    make = _classified if models[0].servable.class_names else _valued
    candidate, current = make(records, models, task.label)
    for part in (WHOLE, *task.slices):
        mask = np.ones(len(records), bool) if part == WHOLE else _in_slice(records, part)
        if mask is None:
            yield Result(name, part, 0, 0.0, 0.0, unknown=True)
            continue
        build = _proportions if models[0].servable.class_names else _errors
        yield build(name, part, candidate[mask], current[mask])


def _classified(records: Sequence[bytes], models: Sequence[Any], label: str) -> list[np.ndarray]:
    """Whether each model is right, (N,) bool each."""
    from components.serving import examples, runtimes

    labels = np.array(examples.labels_of(records, label))
    right = []
    for model in models:
        scores = runtimes.predict_in_batches(model, records, _BATCH)
        answers = np.array(model.servable.class_names)[scores.argmax(1)]
        # What is no number is no answer, though it has a first place like any other.
        right.append((answers == labels) & np.isfinite(scores).all(axis=1))
    return right


def _valued(records: Sequence[bytes], models: Sequence[Any], label: str) -> list[np.ndarray]:
    """Absolute errors, (N,) float each; what is no number is off by more than any limit."""
    from components.serving import examples, runtimes

    labels = examples.numbers_of(records, label)
    values = [runtimes.predict_in_batches(model, records, _BATCH).reshape(-1) for model in models]
    return [np.nan_to_num(np.abs(value - labels), nan=_FAR, posinf=_FAR) for value in values]


def _in_slice(records: Sequence[bytes], part: str) -> np.ndarray | None:
    """Which of N records belong to a slice, (N,) bool; None where none has its feature."""
    from components.serving import examples

    feature, _, value = part.partition("=")
    texts = [examples.feature_text(record, feature) for record in records]
    known = any(text is not None for text in texts)
    return np.array([text == value for text in texts], bool) if known else None


def _proportions(name: str, part: str, candidate: np.ndarray, current: np.ndarray) -> Result:
    if not len(candidate):
        return Result(name, part, 0, 0.0, 0.0)
    wrong, right = int((current & ~candidate).sum()), int((candidate & ~current).sum())
    return Result(name, part, len(candidate), float(candidate.mean()), float(current.mean()), wrong, right)


def _errors(name: str, part: str, candidate: np.ndarray, current: np.ndarray) -> Result:
    if not len(candidate):
        return Result(name, part, 0, 0.0, 0.0)
    scale = 100.0 / max(float(current.mean()), float(np.finfo(np.float32).tiny))
    rises = (candidate - current) * scale
    error = float(rises.std(ddof=1) / np.sqrt(len(rises))) if len(rises) > 1 else float("inf")
    means = (float(candidate.mean()), float(current.mean()))
    return Result(name, part, len(rises), *means, rise=float(rises.mean()), rise_error=error)

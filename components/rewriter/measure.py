"""Measures one candidate beside the original. Runs in a process of its own."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from components.errors import DataError
from components.rewriter.bounds import median_lower_bound, median_upper_bound, rounds_needed
from components.rewriter.choose import SAME_WITHIN
from components.rewriter.figures import ErrorFigures, Figures, SliceFigures
from components.serving import examples, runtimes
from components.serving.runtimes import Runtime
from components.serving.servable import size_bytes, version_folder

ROUNDS = 15
CONFIDENCE = 0.95
_MIN_ROUNDS = 7
_FASTER = 0.95
"""Surely below this share of the original's time, further rounds would only cost."""
_SECONDS = 6.0
_CALLS_PER_ROUND = 20
_ALONE = 64
_SAME = 0.01
"""Answers of a regression agree within this share of the labels' standard deviation."""
BATCH = 32


@dataclass(frozen=True)
class Questions:
    """What a candidate is asked.

    Attributes:
        records: serialized Examples.
        label: their label feature.
        slices: features whose values make slices.
    """

    records: Sequence[bytes]
    label: str
    slices: Sequence[str]


def measure(
    candidate_uri: str,
    original_uri: str,
    asked: Questions,
    rounds: int = ROUNDS,
    confidence: float = CONFIDENCE,
    original_scores: np.ndarray | None = None,
) -> tuple[Figures, np.ndarray]:
    """Figures of a candidate, and its scores for the records: (N, C) float32; of a regression (N,).

    Latency and throughput are taken in interleaved rounds, candidate and
    original by turns, so that a machine that slows down slows both. Half the
    rounds do where they leave no doubt at that confidence, or where the
    candidate is the original. Where the original's scores are known, it is not
    asked for them again.
    """
    records = asked.records
    began = time.perf_counter()
    candidate = runtimes.load(candidate_uri)
    candidate.predict(records[:1])
    load_ms = 1000 * (time.perf_counter() - began)
    scores = runtimes.predict_in_batches(candidate, records, BATCH)
    peak_memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if candidate_uri == original_uri:
        original, original_scores = candidate, scores
    else:
        original = runtimes.load(original_uri)
        if original_scores is None:
            original_scores = runtimes.predict_in_batches(original, records, BATCH)
    single = _interleaved(candidate, original, records, 1, rounds, confidence)
    batch = min(BATCH, len(records))
    batched = _interleaved(candidate, original, records, batch, rounds, confidence)
    candidate_bytes = size_bytes(version_folder(candidate_uri))
    figures = Figures(
        name=candidate.servable.technique,
        size_bytes=candidate_bytes,
        size_ratio=candidate_bytes / size_bytes(version_folder(original_uri)),
        load_ms=load_ms,
        latency_ms_p50=float(np.percentile(single.calls_ms, 50)),
        latency_ms_p95=float(np.percentile(single.calls_ms, 95)),
        throughput=1000 * batch / float(np.median(batched.calls_ms)),
        latency_ratios=tuple(single.ratios),
        throughput_ratios=tuple(1.0 / ratio for ratio in batched.ratios),
        peak_memory_mb=peak_memory_mb,
        batch_shift=_batch_shift(candidate, records, scores),
        **(
            quality(scores, original_scores, asked, original.servable.class_names)
            if original.servable.class_names
            else number_quality(scores, original_scores, asked)
        ),
    )
    return figures, scores


def quality(
    scores: np.ndarray, original: np.ndarray, asked: Questions, class_names: Sequence[str]
) -> dict[str, Any]:
    """What two models' answers say of the candidate's quality, as `Figures` holds it.

    Args:
        scores: (N, C) float32, the candidate's.
        original: (N, C) float32.
        asked: the N records.
        class_names: C names in the order of the scores.
    """
    if scores.shape != original.shape:
        # Another number of classes agrees with nothing.
        scores = np.full_like(original, np.nan)
    labels = examples.label_ids(examples.labels_of(asked.records, asked.label), class_names)
    if (labels < 0).all():
        # Neither model is ever right then, and no candidate could lose anything.
        raise DataError(f"No example's {asked.label!r} is a class of the model")
    top, top_original = _top(scores), original.argmax(axis=1)
    right, right_original = top == labels, top_original == labels
    shift = np.abs(scores - original)
    # Where the label is no class neither is right, and nothing can be lost: such examples show nothing.
    known = labels >= 0
    masks = {name: mask & known for name, mask in _slices(asked).items()}
    return {
        "examples": int(known.sum()),
        "accuracy": float(right[known].mean()),
        **_changes(right, right_original),
        "agreement": float((top == top_original).mean()),
        "max_shift": float(np.nan_to_num(shift, nan=1.0, posinf=1.0).max()),
        "finite": bool(np.isfinite(scores).all()),
        "slices": tuple(
            SliceFigures(
                name=name,
                examples=int(mask.sum()),
                accuracy=float(right[mask].mean()),
                **_changes(right[mask], right_original[mask]),
            )
            for name, mask in masks.items()
            if mask.any()
        ),
    }


def number_quality(values: np.ndarray, original: np.ndarray, asked: Questions) -> dict[str, Any]:
    """The same of a regression.

    Args:
        values: (N,) float32, the candidate's.
        original: (N,) float32.
        asked: the N records.
    """
    labels = examples.numbers_of(asked.records, asked.label).astype(np.float64)
    if values.shape != original.shape:
        values = np.full_like(original, np.nan)
    deviation = float(labels.std()) or 1.0
    shift = np.abs(values - original) / deviation
    error, error_original = np.abs(values - labels), np.abs(original - labels)
    rises = 100.0 * np.nan_to_num(error - error_original, nan=1e9) / max(float(error_original.mean()), 1e-12)
    return {
        "examples": len(labels),
        "accuracy": 0.0,
        "newly_wrong": 0,
        "newly_right": 0,
        "agreement": float((shift < _SAME).mean()),
        "max_shift": float(np.nan_to_num(shift, nan=1.0, posinf=1.0).max()),
        "finite": bool(np.isfinite(values).all()),
        "errors": ErrorFigures(
            mean_absolute=float(np.nan_to_num(error, nan=1e9, posinf=1e9).mean()),
            rise=float(rises.mean()),
            rise_error=float(rises.std() / np.sqrt(max(len(rises) - 1, 1))),
        ),
    }


def _top(scores: np.ndarray) -> np.ndarray:
    """Top class per row; -1 where a row is not finite, which is never right."""
    return np.where(np.isfinite(scores).all(axis=1), scores.argmax(axis=1), -1)


def _changes(right: np.ndarray, right_original: np.ndarray) -> dict[str, int]:
    return {
        "newly_wrong": int(np.sum(right_original & ~right)),
        "newly_right": int(np.sum(right & ~right_original)),
    }


def _slices(asked: Questions) -> Mapping[str, np.ndarray]:
    """`feature=value` -> (N,) bool, in the order of the values."""
    masks = {}
    for feature in asked.slices:
        values = np.array(examples.labels_of(asked.records, feature))
        for value in sorted(set(values.tolist())):
            masks[f"{feature}={value}"] = values == value
    return masks


def _batch_shift(candidate: Runtime, records: Sequence[bytes], batched: np.ndarray) -> float:
    """Largest change of any probability between examples asked alone and in a batch."""
    alone = runtimes.predict_in_batches(candidate, records[:_ALONE], 1)
    if alone.shape != batched[:_ALONE].shape:
        return 1.0
    # Of a regression, in its own unit: relative to how much its answers differ.
    scale = 1.0 if batched.ndim > 1 else max(float(batched.std()), 1e-12)
    shift = np.abs(alone - batched[:_ALONE]) / scale
    return float(np.nan_to_num(shift, nan=1.0, posinf=1.0).max())


@dataclass(frozen=True)
class _Times:
    """The candidate's call times in ms, and per round its median by the original's."""

    calls_ms: list[float]
    ratios: list[float]


def _interleaved(
    candidate: Runtime,
    original: Runtime,
    records: Sequence[bytes],
    batch: int,
    rounds: int,
    confidence: float,
) -> _Times:
    """Takes so many rounds; after 7 no more where these leave no doubt, or once 6 s have passed.

    So many as can bound the median at that confidence are taken however long they last.
    """
    least = max(_MIN_ROUNDS, rounds_needed(confidence))
    starts = range(len(records) - batch + 1)
    calls = max(2, _CALLS_PER_ROUND // batch)

    def timed(runtime: Runtime, round_number: int) -> list[float]:
        chosen = [starts[(round_number * calls + call) % len(starts)] for call in range(calls)]
        return [_milliseconds(runtime, records[start : start + batch]) for start in chosen]

    for runtime in (candidate, original):  # both warm before the first round
        timed(runtime, 0)
    times = _Times([], [])
    began = time.perf_counter()
    for number in range(rounds):
        if number == _MIN_ROUNDS and (candidate is original or _no_doubt(times.ratios, confidence)):
            break
        if number >= least and time.perf_counter() - began > _SECONDS:
            break
        pair = [candidate, original] if number % 2 else [original, candidate]
        taken = {id(runtime): timed(runtime, number) for runtime in dict.fromkeys(pair)}
        times.calls_ms.extend(taken[id(candidate)])
        times.ratios.append(float(np.median(taken[id(candidate)]) / np.median(taken[id(original)])))
    return times


def _no_doubt(ratios: Sequence[float], confidence: float) -> bool:
    """Whether a candidate is surely faster than the original, or surely not; to be asked once.

    Asked after every round, it would sooner or later be sure by chance.
    """
    faster = median_upper_bound(ratios, confidence) < _FASTER
    return faster or median_lower_bound(ratios, confidence) >= 1.0


def _told_apart(times: Mapping[str, Sequence[float]], confidence: float) -> bool:
    """Whether each contender surely counts as equal to the fastest, or surely not; to be asked once."""
    first = min(times, key=lambda name: float(np.median(times[name])))
    limit = 1.0 + SAME_WITHIN
    ratios = [np.divide(taken, times[first]).tolist() for name, taken in times.items() if name != first]
    return all(
        median_upper_bound(each, confidence) <= limit or median_lower_bound(each, confidence) > limit
        for each in ratios
    )


def run_off(
    uris: Mapping[str, str],
    records: Sequence[bytes],
    batch: int,
    rounds: int = ROUNDS,
    confidence: float = CONFIDENCE,
) -> dict[str, list[float]]:
    """Several candidates in one process, by turns: name -> median ms of each round.

    Args:
        uris: name -> the servable's folder.
        records: what they are asked.
        batch: examples a call.
        rounds: how many; half of them do where these tell the candidates apart.
        confidence: with which they must. As many as can bound a median at it are
            taken however long they last; then no more once 3 s for each contender have passed.
    """
    least = max(_MIN_ROUNDS, rounds_needed(confidence))
    loaded = {name: runtimes.load(uri) for name, uri in uris.items()}
    size = min(batch, len(records))
    starts, calls = range(len(records) - size + 1), max(2, _CALLS_PER_ROUND // size)
    for runtime in loaded.values():  # all warm before the first round
        runtime.predict(records[:size])
    times: dict[str, list[float]] = {name: [] for name in loaded}
    began, most_s = time.perf_counter(), _SECONDS / 2 * len(loaded)
    for number in range(rounds):
        if number == _MIN_ROUNDS and _told_apart(times, confidence):
            break
        if number >= least and time.perf_counter() - began > most_s:
            break
        chosen = [starts[(number * calls + call) % len(starts)] for call in range(calls)]
        taken: dict[str, list[float]] = {name: [] for name in loaded}
        # By turns within the round as well: a busy moment meets all of them.
        for start in chosen:
            for name, runtime in loaded.items():
                taken[name].append(_milliseconds(runtime, records[start : start + size]))
        for name, values in taken.items():
            times[name].append(float(np.median(values)))
    return times


def _milliseconds(runtime: Runtime, records: Sequence[bytes]) -> float:
    began = time.perf_counter()
    runtime.predict(records)
    return 1000 * (time.perf_counter() - began)


def write_scores(path: Path, scores: np.ndarray) -> None:
    """Stores scores as a NumPy file."""
    np.save(path, scores)

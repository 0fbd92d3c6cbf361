"""Measures one candidate beside the original. Runs in a process of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from components.rewriter.choose import Figures
from components.serving import examples, runtimes
from components.serving.runtimes import Runtime
from components.serving.servable import size_bytes, version_folder

_ROUNDS = 15
_CALLS_PER_ROUND = 20
_BATCH = 32


def measure(
    candidate_uri: str, original_uri: str, records: Sequence[bytes], label_feature: str
) -> tuple[Figures, np.ndarray]:
    """Figures of a candidate, and its scores for `records`: (N, C) float32.

    Latency and throughput are taken in interleaved rounds, candidate and
    original by turns, so that a machine that slows down slows both.
    """
    began = time.perf_counter()
    candidate = runtimes.load(candidate_uri)
    candidate.predict(records[:1])
    load_ms = 1000 * (time.perf_counter() - began)
    scores = runtimes.predict_in_batches(candidate, records)
    peak_memory_mb = psutil.Process().memory_info().rss / 2**20
    original = runtimes.load(original_uri)
    original_scores = runtimes.predict_in_batches(original, records)
    labels = examples.label_ids(examples.labels_of(records, label_feature), original.servable.class_names)
    candidate_ms, latency_ratios = _interleaved(candidate, original, records, batch=1)
    _, seconds_ratios = _interleaved(candidate, original, records, batch=min(_BATCH, len(records)))
    candidate_bytes = size_bytes(version_folder(candidate_uri))
    return (
        Figures(
            name=candidate.servable.technique,
            examples=len(records),
            size_bytes=candidate_bytes,
            size_ratio=candidate_bytes / size_bytes(version_folder(original_uri)),
            load_ms=load_ms,
            latency_ms_p50=float(np.percentile(candidate_ms, 50)),
            latency_ms_p95=float(np.percentile(candidate_ms, 95)),
            latency_ratios=tuple(latency_ratios),
            throughput_ratios=tuple(1.0 / ratio for ratio in seconds_ratios),
            peak_memory_mb=peak_memory_mb,
            **_quality(scores, original_scores, labels),
        ),
        scores,
    )


def _quality(scores: np.ndarray, original: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    if scores.shape != original.shape:
        # Another number of classes agrees with nothing.
        scores = np.full_like(original, np.nan)
    top, top_original = scores.argmax(axis=1), original.argmax(axis=1)
    right, right_original = top == labels, top_original == labels
    shift = np.abs(scores - original)
    return {
        "accuracy": float(right.mean()),
        "newly_wrong": int(np.sum(right_original & ~right)),
        "newly_right": int(np.sum(right & ~right_original)),
        "agreement": float((top == top_original).mean()),
        "max_shift": float(np.nan_to_num(shift, nan=1.0, posinf=1.0).max()),
        "finite": bool(np.isfinite(scores).all()),
    }


def _interleaved(
    candidate: Runtime, original: Runtime, records: Sequence[bytes], batch: int
) -> tuple[list[float], list[float]]:
    """The candidate's call times in ms, and per round its median by the original's."""
    starts = range(len(records) - batch + 1)
    calls = max(2, _CALLS_PER_ROUND // batch)

    def timed(runtime: Runtime, round_number: int) -> list[float]:
        chosen = [starts[(round_number * calls + call) % len(starts)] for call in range(calls)]
        return [_milliseconds(runtime, records[start : start + batch]) for start in chosen]

    for runtime in (candidate, original):  # both warm before the first round
        timed(runtime, 0)
    all_ms: list[float] = []
    ratios = []
    for round_number in range(_ROUNDS):
        pair = [candidate, original] if round_number % 2 else [original, candidate]
        times = {id(runtime): timed(runtime, round_number) for runtime in pair}
        all_ms.extend(times[id(candidate)])
        ratios.append(float(np.median(times[id(candidate)]) / np.median(times[id(original)])))
    return all_ms, ratios


def _milliseconds(runtime: Runtime, records: Sequence[bytes]) -> float:
    began = time.perf_counter()
    runtime.predict(records)
    return 1000 * (time.perf_counter() - began)


def write_scores(path: Path, scores: np.ndarray) -> None:
    """Stores scores as a NumPy file."""
    np.save(path, scores)

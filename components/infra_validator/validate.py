"""Loads the very bytes to be pushed in a process of its own, and checks its answers."""

from __future__ import annotations

import json

import numpy as np

from components import subprocesses
from components.errors import ServableError
from components.infra_validator import worker
from components.infra_validator.worker import Request
from components.serving.servable import Servable

TOLERANCE = 1e-5
"""Absolute, on probabilities: batches of other sizes sum in another order."""


def validate(request: Request, judged: np.ndarray, *, seconds: float) -> list[str]:
    """What is wrong with the servable, as sentences; empty when nothing is.

    Args:
        request: what to load and send.
        judged: (N, C) float32, the Rewriter's scores of the split in file order.
        seconds: time limit.
    """
    try:
        subprocesses.run(worker.answer, request, seconds=seconds)
        class_names = Servable.read(request.servable_uri).class_names
    except (subprocesses.WorkerFailed, ServableError) as error:
        return [f"the servable could not be loaded and asked: {error}"]
    scores = np.load(request.folder / worker.SCORES_FILE, allow_pickle=False)
    classes = json.loads((request.folder / worker.CLASSES_FILE).read_text())
    return compare(scores, classes, class_names, judged[: request.count])


def compare(
    scores: np.ndarray, classes: list[list[str]], class_names: tuple[str, ...], judged: np.ndarray
) -> list[str]:
    """Checks shape, finiteness, class names and agreement with the judged scores."""
    if scores.shape != judged.shape:
        return [f"scores have shape {scores.shape}; expected {judged.shape}"]
    faults = []
    if not np.isfinite(scores).all():
        faults.append(f"{int((~np.isfinite(scores)).sum())} scores are not finite numbers")
    if any(tuple(row) != class_names for row in classes):
        faults.append(f"class names differ from {list(class_names)}")
    difference = np.abs(scores - judged).max() if scores.size else 0.0
    if not difference <= TOLERANCE:
        faults.append(
            f"answers differ from the judged ones by up to {difference:.2e} (at most {TOLERANCE:g})"
        )
    return faults

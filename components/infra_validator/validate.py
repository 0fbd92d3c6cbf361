"""Loads the very bytes to be pushed in a process of its own, and checks its answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from components import subprocesses
from components.errors import ServableError
from components.infra_validator import worker
from components.serving.servable import Servable

TOLERANCE = 1e-5
"""Absolute, on probabilities: batches of other sizes sum in another order."""


@dataclass(frozen=True)
class Request:
    """What to load and what to send.

    Attributes:
        servable_uri: the servable's artifact folder.
        examples_uri: Examples to send.
        split: their split; the one that was judged.
        count: how many to send.
        seconds: time limit.
    """

    servable_uri: str
    examples_uri: str
    split: str
    count: int
    seconds: float


def validate(request: Request, judged: np.ndarray, folder: Path) -> list[str]:
    """What is wrong with the servable, as sentences; empty when nothing is.

    Args:
        request: what to load and send.
        judged: (N, C) float32, the Rewriter's scores of the split in file order.
        folder: empty scratch folder.
    """
    task = {
        "servable": request.servable_uri,
        "examples": request.examples_uri,
        "split": request.split,
        "count": request.count,
        "folder": str(folder),
    }
    path = folder / "task.json"
    path.write_text(json.dumps(task))
    try:
        subprocesses.run_module(worker.__name__, [str(path)], seconds=request.seconds)
        class_names = Servable.read(request.servable_uri).class_names
    except (subprocesses.WorkerFailed, ServableError) as error:
        return [f"the servable could not be loaded and asked: {error}"]
    scores = np.load(folder / "scores.npy", allow_pickle=False)
    classes = json.loads((folder / "classes.json").read_text())
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

"""How good promoted versions of the retraining simulation truly were, on rows that none of them has seen.

score_new(folder, plan, seed)       # of what was promoted since the last call
read(folder)                        # (day, version) -> accuracy
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.retraining_days import Plan, rows
from bench.retraining_journal import Journal
from bench.retraining_server import example
from components import subprocesses

ROWS = 2_000
_SEED = 5_000


@dataclass(frozen=True)
class Task:
    """Days and versions to score, and where everything lies."""

    folder: Path
    plan: Plan
    seed: int
    pairs: list[tuple[int, int]]


def read(folder: Path) -> dict[tuple[int, int], float]:
    """(day, version) -> accuracy on rows of that day, in [0, 1]."""
    path = folder / "scores.json"
    found = json.loads(path.read_text()) if path.exists() else []
    return {(day, version): accuracy for day, version, accuracy in found}


def score_new(folder: Path, plan: Plan, seed: int) -> None:
    """Scores both versions of each promotion that was not scored yet, on the day it was made."""
    known = read(folder)
    promoted = Journal(folder).of("promoted")
    pairs = [(note["day"], note[side]) for note in promoted for side in ("before", "after")]
    left = [pair for pair in pairs if pair not in known and (folder / "versions" / str(pair[1])).is_dir()]
    if left:
        subprocesses.run(score, Task(folder, plan, seed, left), limits=subprocesses.Limits(seconds=3600))


def score(task: Task) -> None:
    """Adds accuracies; in a process of its own, since TensorFlow does not survive a fork."""
    from components.serving import runtimes

    known = read(task.folder)
    for day, version in task.pairs:
        fresh = rows(task.plan, day, task.seed + _SEED, ROWS)
        model = runtimes.load_version(task.folder / "versions" / str(version))
        scores = model.predict([example(row) for row in fresh]).scores
        said = np.array(model.servable.class_names)[scores.argmax(1)]
        known[day, version] = float((said == np.array([row["label"] for row in fresh])).mean())
    content = [[day, version, accuracy] for (day, version), accuracy in known.items()]
    (task.folder / "scores.json").write_text(json.dumps(content))

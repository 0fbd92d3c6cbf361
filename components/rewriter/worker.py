"""What runs in a process of its own for each candidate: building it, and judging it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from components.rewriter import measure
from components.rewriter.base import Contract, TrainedModel
from components.rewriter.techniques import TECHNIQUES
from components.serving import examples
from components.serving.servable import version_folder

FIGURES_FILE = "figures.json"
SCORES_FILE = "scores.npy"


@dataclass(frozen=True)
class Task:
    """One candidate.

    Attributes:
        technique: its name.
        model_uri: the trained model's artifact folder.
        contract: JSON of `base.Contract`.
        folder: where the candidate is built.
        original: the folder of the original, for comparison.
        examples_uri: Examples to judge on.
        split: the split to judge on.
        label: label feature.
        max_examples: at most so many examples are judged.
    """

    technique: str
    model_uri: str
    contract: str
    folder: Path
    original: Path
    examples_uri: str
    split: str
    label: str
    max_examples: int


def build(task: Task) -> None:
    """Writes the candidate's version folder and manifest."""
    trained = TrainedModel(task.model_uri, Contract.from_json(task.contract))
    task.folder.mkdir(parents=True)
    TECHNIQUES[task.technique](trained, version_folder(task.folder))
    trained.servable(task.technique).write(task.folder)


def judge(task: Task) -> None:
    """Writes the candidate's figures and its scores: (N, C) float32, in file order."""
    records = examples.read_split(task.examples_uri, task.split, task.max_examples)
    figures, scores = measure.measure(str(task.folder), str(task.original), records, task.label)
    measure.write_scores(task.folder / SCORES_FILE, scores)
    (task.folder / FIGURES_FILE).write_text(json.dumps(asdict(figures)))

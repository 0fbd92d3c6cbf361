"""What runs in a process of its own for each candidate: building it, and judging it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from components.rewriter import measure
from components.rewriter.base import Calibration, CannotRun, Contract, TrainedModel
from components.rewriter.techniques import BUILDS
from components.serving import examples
from components.serving.servable import version_folder

FIGURES_FILE = "figures.json"
SCORES_FILE = "scores.npy"
OF_FILE = "judged_of.txt"
CANNOT_RUN_FILE = "cannot_run.txt"
ASKED_FILE = "asked.tfrecord"
"""Beside the candidates: the judged examples, which the first to judge has taken from the split."""


@dataclass(frozen=True)
class Task:
    """One candidate.

    Attributes:
        technique: its name.
        model_uri: the trained model's artifact folder.
        contract: JSON of `base.Contract`.
        folder: where the candidate is built.
        original: the folder of the original, for comparison.
        examples_uri: Examples to calibrate and judge on.
        split: the split to judge on.
        calibration_split: the split to calibrate on; empty for none.
        label: label feature.
        slices: features whose values make slices.
        max_examples: at most so many examples are judged, spread over the split.
        rounds: of timing, at most.
        confidence: with which fewer rounds must leave no doubt.
    """

    technique: str
    model_uri: str
    contract: str
    folder: Path
    original: Path
    examples_uri: str
    split: str
    calibration_split: str
    label: str
    slices: Sequence[str]
    max_examples: int
    rounds: int = measure.ROUNDS
    confidence: float = measure.CONFIDENCE


def build(task: Task) -> None:
    """Writes the candidate's version folder and manifest, or why it cannot run here."""
    _share_gpu()
    _keep_temporary_files(task.folder.with_name(f"{task.folder.name}.tmp"))
    calibration = Calibration(task.examples_uri, task.calibration_split) if task.calibration_split else None
    trained = TrainedModel(task.model_uri, Contract.from_json(task.contract), calibration)
    task.folder.mkdir(parents=True)
    try:
        BUILDS[task.technique](trained, version_folder(task.folder))
    except CannotRun as reason:
        (task.folder / CANNOT_RUN_FILE).write_text(str(reason))
        return
    trained.servable(task.technique).write(task.folder)


@dataclass(frozen=True)
class RunOff:
    """Contenders to measure against each other.

    Attributes:
        folders: name -> where the candidate was built.
        examples_uri: Examples to ask.
        split: their split.
        max_examples: at most so many.
        batch: examples a call.
        result: file for the times: JSON, name -> ms per round.
        confidence: with which fewer rounds must tell them apart.
    """

    folders: Mapping[str, Path]
    examples_uri: str
    split: str
    max_examples: int
    batch: int
    result: Path
    confidence: float = measure.CONFIDENCE


def run_off(task: RunOff) -> None:
    """Writes each contender's time in each round."""
    _share_gpu()
    records, _ = _asked(task.result.with_name(ASKED_FILE), task)
    uris = {name: str(folder) for name, folder in task.folders.items()}
    times = measure.run_off(uris, records, task.batch, confidence=task.confidence)
    task.result.write_text(json.dumps(times))


def _share_gpu() -> None:
    """TensorFlow takes a GPU's whole memory at first use: builds beside it and engines need some too."""
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def _keep_temporary_files(folder: Path) -> None:
    """Converters leave theirs lying: here they go with the candidates. This process is the build's own."""
    folder.mkdir(parents=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def judge(task: Task) -> None:
    """Writes the candidate's figures and its scores: (N, C) float32, in file order."""
    _share_gpu()
    records, of = _asked(task.original.with_name(ASKED_FILE), task)
    asked = measure.Questions(records, task.label, task.slices)
    known = task.original / SCORES_FILE
    figures, scores = measure.measure(
        str(task.folder),
        str(task.original),
        asked,
        task.rounds,
        task.confidence,
        np.load(known, allow_pickle=False) if known.exists() else None,
    )
    measure.write_scores(task.folder / SCORES_FILE, scores)
    (task.folder / OF_FILE).write_text(str(of))
    (task.folder / FIGURES_FILE).write_text(json.dumps(asdict(figures)))


def _asked(kept: Path, task: Task | RunOff) -> tuple[list[bytes], int]:
    """The examples to judge on, spread over the split, and of how many they were taken.

    The split is read for that once, and not again by every candidate's process.
    """
    said = kept.with_suffix(".of")
    if kept.exists():
        return list(tf.data.TFRecordDataset(str(kept)).as_numpy_iterator()), int(said.read_text())
    records, of = examples.read_spread(task.examples_uri, task.split, task.max_examples)
    said.write_text(str(of))
    unfinished = kept.with_name(f"{os.getpid()}.{kept.name}")
    with tf.io.TFRecordWriter(str(unfinished)) as writer:
        for record in records:
            writer.write(record)
    unfinished.replace(kept)
    return records, of

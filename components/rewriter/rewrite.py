"""Builds all candidates, judges them, and lays out the chosen one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from components import subprocesses
from components.errors import ServableError
from components.rewriter import worker
from components.rewriter.choose import Figures, Policy, Verdict, choose, judge
from components.rewriter.techniques import IDENTITY
from components.serving.servable import MANIFEST, VERSION_FOLDER, version_folder


@dataclass(frozen=True)
class Job:
    """What to rewrite, and with what.

    Attributes:
        model_uri: the trained model's artifact folder.
        examples_uri: Examples to judge on.
        split: the split to judge on.
        label: label feature.
        contract: JSON of `base.Contract`.
        candidates: technique names.
        policy: the gate.
        max_examples: at most so many examples are judged.
        seconds: time limit of each build and each judgement.
        scratch: an empty folder for candidates.
    """

    model_uri: str
    examples_uri: str
    split: str
    label: str
    contract: str
    candidates: Sequence[str]
    policy: Policy
    max_examples: int
    seconds: float
    scratch: Path


@dataclass(frozen=True)
class Outcome:
    """The choice, the reason, and all verdicts."""

    chosen: str
    reason: str
    verdicts: Sequence[Verdict]


def rewrite(job: Job) -> Outcome:
    """Builds and judges every candidate; each in processes of its own.

    Raises:
        ServableError: the original itself cannot be taken apart or judged.
    """
    original = _attempt(job, IDENTITY)
    if original.figures is None:
        raise ServableError(
            f"The trained model itself cannot be served: {original.reason}",
            place=job.model_uri,
            remedy="See the node's log for the whole message.",
        )
    verdicts = [_attempt(job, name) for name in job.candidates if name != IDENTITY]
    chosen, reason = choose(verdicts, job.policy, IDENTITY)
    return Outcome(chosen, reason, [_as_original(original), *verdicts])


def _attempt(job: Job, technique: str) -> Verdict:
    """Builds and judges one candidate; a failure is that candidate's verdict."""
    task = worker.Task(
        technique=technique,
        model_uri=job.model_uri,
        contract=job.contract,
        folder=job.scratch / technique,
        original=job.scratch / IDENTITY,
        examples_uri=job.examples_uri,
        split=job.split,
        label=job.label,
        max_examples=job.max_examples,
    )
    for step, verb in ((worker.build, "be built"), (worker.judge, "be judged")):
        try:
            subprocesses.run(step, task, seconds=job.seconds)
        except subprocesses.WorkerFailed as failure:
            return Verdict(technique, False, f"it could not {verb}: {failure}")
    return judge(Figures.from_json((task.folder / worker.FIGURES_FILE).read_text()), job.policy)


def _as_original(verdict: Verdict) -> Verdict:
    return Verdict(IDENTITY, True, "the original", 1.0, verdict.drop_bound, verdict.figures)


def write_servable(job: Job, outcome: Outcome, servable_uri: str) -> None:
    """Copies the chosen candidate's version folder and manifest to an artifact."""
    source = job.scratch / outcome.chosen
    shutil.copytree(version_folder(source), Path(servable_uri, VERSION_FOLDER))
    shutil.copy(source / MANIFEST, servable_uri)


def write_report(job: Job, outcome: Outcome, report_uri: str) -> None:
    """Writes `candidates.json`, and the chosen one's judged scores as `judged.npy`."""
    report = {
        "chosen": outcome.chosen,
        "reason": outcome.reason,
        "objective": job.policy.objective,
        "max_drop": job.policy.max_drop,
        "confidence": job.policy.confidence,
        "split": job.split,
        "candidates": [verdict.to_json() for verdict in outcome.verdicts],
    }
    Path(report_uri, "candidates.json").write_text(json.dumps(report, indent=1))
    shutil.copy(job.scratch / outcome.chosen / worker.SCORES_FILE, Path(report_uri, "judged.npy"))


def read_judged(report_uri: str) -> np.ndarray:
    """The chosen candidate's scores on the judged split, in file order: (N, C) float32."""
    return np.asarray(np.load(Path(report_uri, "judged.npy"), allow_pickle=False))

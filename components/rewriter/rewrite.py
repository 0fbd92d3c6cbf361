"""Builds all candidates, judges them, and lays out the chosen one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from components import memory, subprocesses
from components.errors import ServableError
from components.rewriter import catalogue, measure, worker
from components.rewriter.catalogue import IDENTITY, Target
from components.rewriter.choose import Policy, Verdict, choose, contenders, judge, ranked
from components.rewriter.figures import Figures
from components.serving.servable import MANIFEST, VERSION_FOLDER, version_folder
from components.serving.spread import spread

KEPT_FOLDER = "candidates"
_BUILDS_AT_A_TIME = 2
"""Where the memory allows it."""
_LEAST_TOLERANCE = 1e-5

MEMORY_SHARE = 0.4
"""Of the available memory, for each build or judgement where nothing else is set: two run side by side."""

LEAST_MEMORY_MB = 2048.0
"""Below, little could be built at all. Where two of these are not there, one is at work at a time."""


def limits(seconds: float, memory_mb: float | None) -> subprocesses.Limits:
    """Limits of each build and judgement; where no memory is set, a share of what is available now."""
    if memory_mb is None:
        memory_mb = round(memory.share_mb(MEMORY_SHARE, least=LEAST_MEMORY_MB))
    return subprocesses.Limits(seconds, memory_mb)


_REMEDIES: Mapping[str, str] = {
    "time": "Raise rewrite.candidate_timeout_s (of headrace rewrite: --timeout).",
    "memory": "Raise rewrite.candidate_memory_mb (of headrace rewrite: --memory).",
}


class CandidateKilledError(RuntimeError):
    """A candidate's process was ended from outside, by hand or for want of memory: that says nothing of it.

    The node fails, and is run again on resume; a verdict would stand in the
    cache and be taken for the candidate's.
    """


@dataclass(frozen=True)
class Job:
    """What to rewrite, and with what.

    Attributes:
        model_uri: the trained model's artifact folder.
        examples_uri: Examples to calibrate and judge on.
        split: the split to judge on.
        calibration_split: the split to calibrate on; empty for none.
        label: label feature.
        slices: features whose values make slices.
        contract: JSON of `base.Contract`.
        candidates: technique names, none of which may be wanted; None for what pays by the catalogue.
        target: what is to load the chosen one.
        policy: the gate.
        max_examples: at most so many examples are judged, spread over the split.
        limits: of each build and each judgement.
        keep: so many of the best candidates are kept in the report.
        scratch: an empty folder for candidates.
    """

    model_uri: str
    examples_uri: str
    split: str
    calibration_split: str
    label: str
    slices: Sequence[str]
    contract: str
    candidates: Sequence[str] | None
    target: Target
    policy: Policy
    max_examples: int
    limits: subprocesses.Limits
    keep: int
    scratch: Path


@dataclass(frozen=True)
class Outcome:
    """The choice, the reason, all verdicts, and the names of those that qualified, best first."""

    chosen: str
    reason: str
    verdicts: Sequence[Verdict]
    best: Sequence[str] = ()


def rewrite(job: Job) -> Outcome:
    """Builds and judges every candidate; each in processes of its own.

    Candidates are built side by side, and judged one after another: two at a
    time would take each other's processor, and their times would mean nothing.

    Raises:
        ServableError: the original itself cannot be taken apart or judged.
        CandidateKilledError: a process was ended from outside.
    """
    # Each once: two builds of one name would be in each other's way.
    names = [name for name in dict.fromkeys(_wanted(job)) if name != IDENTITY]
    with ThreadPoolExecutor(_at_a_time(job.limits)) as pool:
        # The original first: the others are judged beside it.
        built = dict(
            zip([IDENTITY, *names], pool.map(lambda name: _build(job, name), [IDENTITY, *names]), strict=True)
        )
    original = built[IDENTITY] or _judge(job, IDENTITY)
    if original.figures is None:
        raise ServableError(
            f"The trained model itself cannot be served: {original.reason}",
            place=job.model_uri,
            remedy=_REMEDIES.get(original.cause, "See the node's log for the whole message."),
        )
    job = _with_remedies(job)
    verdicts = [built[name] or _judge(job, name) for name in names]
    times, note = _run_off(job, verdicts)
    chosen, reason = choose(verdicts, job.policy, times)
    return Outcome(
        chosen,
        _for_target(job, chosen, reason + note),
        [_as_original(original), *verdicts, *_left_out(job, names)],
        ranked(verdicts, chosen, times),
    )


def _with_remedies(job: Job) -> Job:
    """The job with what helps against too few examples: no larger split, where not all of it is judged."""
    if int((job.scratch / IDENTITY / worker.OF_FILE).read_text()) <= job.max_examples:
        return job
    remedies = replace(job.policy.remedies, more=job.policy.remedies.more_judged)
    return replace(job, policy=replace(job.policy, remedies=remedies))


def _wanted(job: Job) -> Sequence[str]:
    if job.candidates is None:
        return catalogue.automatic(job.target, job.policy.objective)
    return job.candidates


def _for_target(job: Job, chosen: str, reason: str) -> str:
    """Says so where the target's server does not load what goes on: the original, where nothing qualified."""
    technique = catalogue.TECHNIQUES.get(chosen)
    if technique is None or technique.runtime in catalogue.LOADS[job.target]:
        return reason
    return (
        f"{reason}; it is a SavedModel, which the target {job.target} does not load, so it will not be pushed"
    )


def _left_out(job: Job, tried: Sequence[str]) -> list[Verdict]:
    """Techniques of this target that were not asked for, so that none is silently absent."""
    if job.candidates is None:
        why = f"auto leaves it out: it seldom pays for {job.policy.objective}"
    else:
        why = "not among rewrite.candidates"
    return [
        Verdict(name, False, why, state="left_out")
        for name in catalogue.techniques_for(job.target)
        if name not in tried
    ]


def _task(job: Job, technique: str) -> worker.Task:
    return worker.Task(
        technique=technique,
        model_uri=job.model_uri,
        contract=job.contract,
        folder=job.scratch / technique,
        original=job.scratch / IDENTITY,
        examples_uri=job.examples_uri,
        split=job.split,
        calibration_split=job.calibration_split,
        label=job.label,
        slices=job.slices,
        max_examples=job.max_examples,
        confidence=job.policy.confidence,
    )


def _build(job: Job, technique: str) -> Verdict | None:
    """Builds a candidate; None when that went well, else the verdict."""
    task = _task(job, technique)
    try:
        subprocesses.run(worker.build, task, limits=job.limits)
    except subprocesses.WorkerFailed as failure:
        return _failed(technique, "built", failure)
    reason = task.folder / worker.CANNOT_RUN_FILE
    if reason.exists():
        return Verdict(technique, False, f"it cannot run here: {reason.read_text()}", state="cannot_run")
    return None


def _judge(job: Job, technique: str) -> Verdict:
    """Judges a candidate that was built; a failure is its verdict."""
    task = _task(job, technique)
    try:
        subprocesses.run(worker.judge, task, limits=job.limits)
    except subprocesses.WorkerFailed as failure:
        return _failed(technique, "judged", failure)
    return judge(Figures.from_json((task.folder / worker.FIGURES_FILE).read_text()), job.policy)


def _failed(technique: str, what: str, failure: subprocesses.WorkerFailed) -> Verdict:
    if failure.cause == "killed":
        raise CandidateKilledError(
            f"{technique} could not be {what}: {failure}, by somebody else or for want of memory; run it "
            "again, with a lower rewrite.candidate_memory_mb or without this candidate if it happens again"
        ) from failure
    reason = f"it could not be {what}: {failure}"
    return Verdict(technique, False, reason, state="failed", cause=failure.cause)


def _run_off(job: Job, verdicts: Sequence[Verdict]) -> tuple[dict[str, list[float]], str]:
    """Times of those that must be told apart, and what to say where that failed; empty where none must."""
    names = contenders(verdicts, job.policy)
    if not names:
        return {}, ""
    task = worker.RunOff(
        folders={name: job.scratch / name for name in names},
        examples_uri=job.examples_uri,
        split=job.split,
        max_examples=job.max_examples,
        batch=measure.BATCH if job.policy.objective == "throughput" else 1,
        result=job.scratch / "run_off.json",
        confidence=job.policy.confidence,
    )
    try:
        subprocesses.run(worker.run_off, task, limits=_of_all(job.limits, len(names)))
    except subprocesses.WorkerFailed as failure:
        # Each alone was judged, and is sound: only which is the better one is less sure.
        between = f"the run-off between {', '.join(names)} failed ({failure})"
        return {}, f"; {between}, so that times taken apart decided"
    return dict(json.loads(task.result.read_text())), ""


def _at_a_time(each: subprocesses.Limits) -> int:
    """Builds side by side: no more than fit, or else the system would end one that keeps to its limit."""
    if each.memory_mb is None:
        return _BUILDS_AT_A_TIME
    return max(1, min(_BUILDS_AT_A_TIME, int(memory.available_mb() / each.memory_mb)))


def _of_all(each: subprocesses.Limits, count: int) -> subprocesses.Limits:
    """For so many models in one process; memory for no more than are otherwise built side by side."""
    several = min(count, _BUILDS_AT_A_TIME)
    return subprocesses.Limits(
        each.seconds * count, None if each.memory_mb is None else each.memory_mb * several
    )


def _as_original(verdict: Verdict) -> Verdict:
    return Verdict(
        IDENTITY,
        True,
        "the original",
        drop_bound=verdict.drop_bound,
        figures=verdict.figures,
        slices=verdict.slices,
    )


def write_servable(job: Job, outcome: Outcome, servable_uri: str) -> None:
    """Copies the chosen candidate's version folder and manifest to an artifact."""
    _copy(job, outcome.chosen, Path(servable_uri))


def _copy(job: Job, technique: str, folder: Path) -> None:
    source = job.scratch / technique
    shutil.copytree(version_folder(source), folder / VERSION_FOLDER)
    shutil.copy(source / MANIFEST, folder)


def write_report(job: Job, outcome: Outcome, report_uri: str) -> None:
    """Writes `candidates.json`, the chosen one's judged scores as `judged.npy`, and the kept candidates."""
    report = {
        "chosen": outcome.chosen,
        "reason": outcome.reason,
        "objective": job.policy.objective,
        "target": job.target,
        "max_drop": job.policy.max_drop,
        "max_slice_drop": job.policy.max_slice_drop,
        "confidence": job.policy.confidence,
        "split": job.split,
        "judged_of": int((job.scratch / outcome.chosen / worker.OF_FILE).read_text()),
        "candidates": [verdict.to_json() for verdict in outcome.verdicts],
    }
    Path(report_uri, "candidates.json").write_text(json.dumps(report, indent=1))
    shutil.copy(job.scratch / outcome.chosen / worker.SCORES_FILE, Path(report_uri, "judged.npy"))
    for name in outcome.best[: job.keep]:
        folder = Path(report_uri, KEPT_FOLDER, name)
        folder.mkdir(parents=True)
        _copy(job, name, folder)


def read_judged(report_uri: str) -> np.ndarray:
    """The chosen candidate's scores of the judged examples, in file order: (N, C) float32."""
    return np.asarray(np.load(Path(report_uri, "judged.npy"), allow_pickle=False))


def read_places(report_uri: str) -> list[int]:
    """Where in the split the judged examples are: (N,)."""
    count = len(read_judged(report_uri))
    report = json.loads(Path(report_uri, "candidates.json").read_text())
    # Earlier reports do not say: they have judged the first ones.
    return spread(report.get("judged_of", count), count)


def read_tolerance(report_uri: str) -> float:
    """How far served answers may be from the judged ones, absolute, on probabilities.

    Batches of other sizes sum in another order, and where activations are
    rounded to int8 that can tip one over: as far as was seen, twice.
    """
    report = json.loads(Path(report_uri, "candidates.json").read_text())
    row = next(item for item in report["candidates"] if item["name"] == report["chosen"])
    return max(_LEAST_TOLERANCE, 2.0 * float(row["figures"]["batch_shift"]))

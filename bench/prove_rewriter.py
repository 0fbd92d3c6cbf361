"""Sabotaged candidates against the Rewriter's gate, on a trained model: all refused, and the sound ones pass.

    python -m bench.prove_rewriter --workspace workspace --run latest --cases 100 --small 20

The run's own model, examples and limits are used. Candidates are built and
judged as in a run, each in processes of its own. Sound candidates (float32 and
float16 in every format, and int8 where one qualifies) are judged by size, so
that a busy machine does not fail the proof; the slower ones by latency, as
that is what is wrong with them. One that could not be judged was not refused
by the gate: it counts only where a file was cut off, which cannot load. Beside
these coarse ones, some lose just more than the limit: of them a gate may pass
as many as its confidence says.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy import stats

from bench import sabotage, small_harm
from bench.common import Figure, print_table, report
from components import subprocesses
from components.rewriter import choose, worker
from components.rewriter.catalogue import Target
from components.rewriter.choose import Policy
from components.rewriter.figures import Figures
from pipelines.lineage.store import Store
from pipelines.workspace import Workspace

SOUND = ("frozen", "float16", "tflite", "tflite_float16", "onnx")
INT8 = ("tflite_dynamic", "tflite_int8", "onnx_int8")
"""From mild to coarse. Not every model bears them: the first that qualifies is among the sound ones."""

_LIMITS = subprocesses.Limits(600.0, 8000.0)
_AT_A_TIME = 2


@dataclass(frozen=True)
class Trained:
    """A run's trained model, with what its Rewriter was told.

    Attributes:
        experiment: its name.
        task: the original, to be built and judged.
        policy: the run's own limits, for size.
        target: what loads the run's choice.
        candidates: as the run's Rewriter was told; None for what pays.
    """

    experiment: str
    task: worker.Task
    policy: Policy
    target: Target = "tf_serving"
    candidates: Sequence[str] | None = None


@dataclass(frozen=True)
class Result:
    """What the gate said of a candidate.

    Attributes:
        name: the case's, or the technique's.
        refused: whether the gate refused it.
        reason: why, or why not.
        judged: False where the gate said nothing: then it was neither refused nor passed.
    """

    name: str
    refused: bool
    reason: str
    judged: bool = True

    @property
    def passed(self) -> bool:
        return self.judged and not self.refused

    @property
    def word(self) -> str:
        return "refused" if self.refused else "passed" if self.judged else "NOT JUDGED"


def of_run(workspace: Path, run: str, scratch: Path) -> Trained:
    """Reads what a run's Rewriter worked on."""
    with Store(Workspace.open(str(workspace)).database) as store:
        record = store.find_run(run)
        nodes = {node.node: node for node in store.nodes(record.run_id)}
    told: dict[str, Any] = nodes["Rewriter"].properties
    settings = json.loads(told["rewrite"])
    task = worker.Task(
        technique="identity",
        model_uri=nodes["Trainer"].outputs["model"][0].uri,
        contract=told["contract"],
        folder=scratch / "identity",
        original=scratch / "identity",
        examples_uri=nodes["ExampleGen"].outputs["examples"][0].uri,
        split=told["split"],
        calibration_split="train",
        label=told["label"],
        slices=[told["label"]],
        max_examples=settings["max_examples"],
    )
    policy = Policy("size", settings["max_drop"], settings["confidence"], settings.get("max_slice_drop", 5.0))
    candidates = None if settings["candidates"] == "auto" else settings["candidates"]
    return Trained(record.experiment, task, policy, settings["target"], candidates)


def judged(task: worker.Task, name: str, policy: Policy, *, may_not_load: bool = False) -> Result:
    """Judges what was built in the task's folder.

    Args:
        task: the candidate.
        name: to tell it by.
        policy: the gate.
        may_not_load: an error or a crash in loading it refuses it; a time-out never does.
    """
    try:
        subprocesses.run(worker.judge, task, limits=_LIMITS)
    except subprocesses.WorkerFailed as failure:
        refused = may_not_load and failure.cause in ("raised", "crashed")
        return Result(name, refused, f"it could not be judged: {failure}", judged=refused)
    verdict = choose.judge(Figures.from_json((task.folder / worker.FIGURES_FILE).read_text()), policy)
    # What is only no smaller was not refused for the harm in it: by size, soundness alone counts.
    passed = verdict.sound if policy.objective == "size" else verdict.qualified
    return Result(name, not passed, verdict.reason)


def sound(trained: Trained, scratch: Path, names: Sequence[str] = SOUND) -> list[Result]:
    """Builds and judges ordinary candidates. The original must have been built."""
    return [_ordinary(trained, scratch, name) for name in names]


def original(trained: Trained) -> None:
    """Builds and judges the original, which the others are compared with."""
    subprocesses.run(worker.build, trained.task, limits=_LIMITS)
    subprocesses.run(worker.judge, replace(trained.task, rounds=1), limits=_LIMITS)


def sound_int8(trained: Trained, scratch: Path, names: Sequence[str] = INT8) -> Result | None:
    """The first int8 candidate that qualifies, where one does."""
    found = (_ordinary(trained, scratch, name) for name in names)
    return next((item for item in found if item.passed), None)


def _ordinary(trained: Trained, scratch: Path, name: str) -> Result:
    task = replace(trained.task, technique=name, folder=scratch / name)
    subprocesses.run(worker.build, task, limits=_LIMITS)
    return judged(replace(task, rounds=1), name, trained.policy)


def sabotaged(trained: Trained, scratch: Path, made: Sequence[sabotage.Case]) -> list[Result]:
    """Builds and judges bad candidates. The original must have been built."""
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(lambda case: _one(trained, scratch, case), made))


def _one(trained: Trained, scratch: Path, case: sabotage.Case) -> Result:
    task = sabotage.with_folder(trained.task, case, scratch)
    # A case that cannot be made is a fault of the proof, so it is not caught.
    subprocesses.run(sabotage.build, sabotage.CaseTask(case, task), limits=_LIMITS)
    # Only the slower ones are judged by their times; of the others none are wanted.
    slower = case.kind == "slower"
    policy = replace(trained.policy, objective="latency" if slower else "size")
    timed = task if slower else replace(task, rounds=1)
    result = judged(timed, case.name, policy, may_not_load=case.kind == "truncated_file")
    print(f"{result.word:10}  {case.name}: {result.reason}", flush=True)
    shutil.rmtree(task.folder)
    return result


def slightly_harmed(trained: Trained, scratch: Path, made: Sequence[sabotage.Case]) -> list[Result]:
    """Builds and judges candidates that lose just more than the limit. The original must have been built."""
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        return list(pool.map(lambda case: _slight(trained, scratch, case), made))


def _slight(trained: Trained, scratch: Path, case: sabotage.Case) -> Result:
    task = sabotage.with_folder(trained.task, case, scratch)
    asked = small_harm.Asked(case, task, trained.policy.max_drop)
    try:
        subprocesses.run(small_harm.build, asked, limits=_LIMITS)
    except subprocesses.WorkerFailed as failure:
        if failure.cause != "raised":
            raise
        # Not every model can be harmed in every way by just so much.
        print(f"NOT MADE    {case.name}: {failure}", flush=True)
        return Result(case.name, False, f"it could not be made: {failure}", judged=False)
    result = judged(replace(task, rounds=1), case.name, trained.policy)
    lost = small_harm.read_drop(task.folder)
    reason = f"loses {lost['drop']:.2f} points on {lost['unseen']} unseen examples; {result.reason}"
    print(f"{result.word:10}  {case.name}: {reason}", flush=True)
    shutil.rmtree(task.folder)
    return replace(result, reason=reason)


def figures_of(
    name: str, good: Sequence[Result], bad: Sequence[Result], slight: Sequence[Result], confidence: float
) -> list[Figure]:
    """Coarse ones that were refused, sound ones that passed, and how many of the slightly harmed passed."""
    refused, passed = sum(item.refused for item in bad), sum(item.passed for item in good)
    figures = [
        Figure.of(f"sabotaged_refused_{name}", [refused], [len(bad)], "cases", ">= 1"),
        Figure.of(f"sound_passed_{name}", [passed], [len(good)], "cases", ">= 1"),
    ]
    count = sum(item.judged for item in slight)
    if count:
        # As many as a gate that keeps to its confidence passes in nineteen of twenty proofs.
        allowed = int(stats.binom.ppf(0.95, count, 1.0 - confidence))
        through = sum(item.passed for item in slight)
        goal = f"<= {math.ceil(1000 * allowed / count) / 1000}"
        figures.append(Figure.of(f"slightly_harmed_passed_{name}", [through], [count], "cases", goal))
    return figures


def main() -> None:
    """Prints every case, and the counts by kind; writes `bench/results/prove_rewriter_<experiment>.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workspace", type=Path, default=Path("workspace"))
    parser.add_argument("--run", default="latest", help="an id, a unique prefix, or latest")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--small", type=int, default=20, help="cases that lose just more than the limit")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        trained = of_run(asked.workspace, asked.run, scratch)
        original(trained)
        int8 = sound_int8(trained, scratch)
        good = [*sound(trained, scratch), *([int8] if int8 else [])]
        for item in good:
            print(f"{item.word:10}  {item.name}: {item.reason}", flush=True)
        bad = sabotaged(trained, scratch, sabotage.cases(asked.cases, asked.seed))
        slight = slightly_harmed(trained, scratch, small_harm.cases(asked.small, asked.seed))
    rows = sabotage.by_kind([(item.name, item.refused) for item in bad])
    print_table(
        f"Sabotaged candidates of {trained.experiment}",
        ("kind", "cases", "refused"),
        [(kind, str(count), str(refused)) for kind, count, refused in rows],
    )
    print_table(
        f"Candidates of {trained.experiment} that lose 1 to {small_harm.AT_MOST:g} times the limit",
        ("kind", "cases", "passed"),
        [
            (kind, str(count), str(passed))
            for kind, count, passed in small_harm.by_kind([(item.name, item.passed) for item in slight])
        ],
    )
    name = trained.experiment.replace("-", "_")
    report(
        f"prove_rewriter_{name}",
        figures_of(name, good, bad, slight, trained.policy.confidence),
        {
            "seed": asked.seed,
            "int8": int8.name if int8 else None,
            "cases": [vars(item) for item in (*good, *bad, *slight)],
        },
    )


if __name__ == "__main__":
    main()

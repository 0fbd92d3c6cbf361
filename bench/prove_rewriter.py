"""Sabotaged candidates against the Rewriter's gate, on a trained model: all refused, and the sound ones pass.

    python -m bench.prove_rewriter --workspace workspace --run latest --cases 100

The run's own model, examples and limits are used. Candidates are built and
judged as in a run, each in processes of its own. Sound candidates (float32 and
float16 in every format) are judged by size, so that a busy machine does not
fail the proof; the slower ones by latency, as that is what is wrong with them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import sabotage
from bench.common import Figure, print_table, report
from components import subprocesses
from components.rewriter import choose, worker
from components.rewriter.choose import Figures, Policy
from pipelines.lineage.store import Store
from pipelines.workspace import Workspace

SOUND = ("frozen", "float16", "tflite", "tflite_float16", "onnx")
_LIMITS = subprocesses.Limits(600.0, 8000.0)
_AT_A_TIME = 2


@dataclass(frozen=True)
class Trained:
    """A run's trained model, with what its Rewriter was told."""

    experiment: str
    task: worker.Task
    policy: Policy


@dataclass(frozen=True)
class Result:
    """What the gate said of a candidate."""

    name: str
    refused: bool
    reason: str


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
    return Trained(record.experiment, task, policy)


def judged(task: worker.Task, name: str, policy: Policy) -> Result:
    """Judges what was built in the task's folder."""
    try:
        subprocesses.run(worker.judge, task, limits=_LIMITS)
    except subprocesses.WorkerFailed as failure:
        return Result(name, True, f"it could not be judged: {failure}")
    verdict = choose.judge(Figures.from_json((task.folder / worker.FIGURES_FILE).read_text()), policy)
    return Result(name, not verdict.qualified, verdict.reason)


def sound(trained: Trained, scratch: Path, names: Sequence[str] = SOUND) -> list[Result]:
    """Builds the original, and judges ordinary candidates beside it."""
    subprocesses.run(worker.build, trained.task, limits=_LIMITS)
    found = []
    for name in names:
        task = replace(trained.task, technique=name, folder=scratch / name)
        subprocesses.run(worker.build, task, limits=_LIMITS)
        found.append(judged(replace(task, rounds=1), name, trained.policy))
    return found


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
    result = judged(task if slower else replace(task, rounds=1), case.name, policy)
    print(f"{'refused' if result.refused else 'PASSED'}  {case.name}: {result.reason}", flush=True)
    shutil.rmtree(task.folder)
    return result


def main() -> None:
    """Prints every case, and the counts by kind; writes `bench/results/prove_rewriter_<experiment>.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workspace", type=Path, default=Path("workspace"))
    parser.add_argument("--run", default="latest", help="an id, a unique prefix, or latest")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        trained = of_run(asked.workspace, asked.run, Path(scratch))
        good = sound(trained, Path(scratch))
        for item in good:
            print(f"{'REFUSED' if item.refused else 'passed'}  {item.name}: {item.reason}", flush=True)
        bad = sabotaged(trained, Path(scratch), sabotage.cases(asked.cases, asked.seed))
    rows = sabotage.by_kind([(item.name, item.refused) for item in bad])
    print_table(
        f"Sabotaged candidates of {trained.experiment}",
        ("kind", "cases", "refused"),
        [(kind, str(count), str(refused)) for kind, count, refused in rows],
    )
    refused, passed = sum(item.refused for item in bad), sum(not item.refused for item in good)
    name = trained.experiment.replace("-", "_")
    report(
        f"prove_rewriter_{name}",
        [
            Figure.of(f"sabotaged_refused_{name}", [refused], [len(bad)], "cases", ">= 1"),
            Figure.of(f"sound_passed_{name}", [passed], [len(good)], "cases", ">= 1"),
        ],
        {"seed": asked.seed, "cases": [vars(item) for item in (*good, *bad)]},
    )


if __name__ == "__main__":
    main()

"""What a run costs beside stock TFX, a plain script, and TFMA: CPU seconds of whole processes.

    python -m bench.overhead [--quick] [--only NAME,...]

Every measurement is a process of its own, imports included, that starts from
nothing. NAMEs are `cached`, `stock`, `script` and `evaluation`. Takes about an
hour; with --quick, fewer rounds and rows.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.common import Figure, interleaved, print_table, report
from bench.taxi_like import write_csv

EPOCHS = 5
OURS_ALONE = ("Rewriter", "InfraValidator")
_PR_SET_CHILD_SUBREAPER = 36
CACHED_LIMIT_S, CACHED_LIMIT_MB = 5.0, 300.0


@dataclass(frozen=True)
class Cost:
    """What a process and all it started took.

    Attributes:
        cpu_s: CPU seconds.
        wall_s: wall-clock seconds.
        memory_mb: resident memory of the largest process.
    """

    cpu_s: float
    wall_s: float
    memory_mb: float


def cost_of(*command: object, log: Path) -> Cost:
    """Runs a command to its end in a process that waits for nothing else."""
    watched = [sys.executable, "-m", "bench.overhead", "--watch", str(log), *map(str, command)]
    done = subprocess.run(watched, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command}: {log.read_text()[-2000:]}")
    return Cost(**json.loads(done.stdout))


def _watch(log: str, command: Sequence[str]) -> None:
    """Runs a command and prints its cost.

    A process counts once somebody has waited for it. Those that are left by
    their parents, as multiprocessing's fork server is, come to this one, which
    waits for them too.
    """
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("Linux lets nobody wait for processes that are left behind")
    began = time.monotonic()
    with open(log, "ab") as output:
        code = subprocess.run(command, stdout=output, stderr=output, check=False).returncode
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        json.dumps(
            {
                "cpu_s": used.ru_utime + used.ru_stime,
                "wall_s": time.monotonic() - began,
                "memory_mb": used.ru_maxrss / 1024,
            }
        )
    )
    sys.exit(code)


class Bench:
    """The measurements, in one scratch folder."""

    def __init__(self, scratch: Path, *, quick: bool) -> None:
        self.scratch, self.quick = scratch, quick
        self.rounds = 1 if quick else 3
        self.facts: dict[str, object] = {}
        self._made = 0

    def fresh(self, name: str) -> Path:
        """A folder that nothing has been written to."""
        self._made += 1
        folder = self.scratch / f"{name}-{self._made}"
        folder.mkdir()
        return folder

    def headrace(self, workspace: Path, *arguments: object) -> Cost:
        command = (sys.executable, "-m", "pipelines.cli.main", "run", *arguments, "--workspace", workspace)
        return cost_of(*command, log=workspace.parent / f"{workspace.name}.log")

    def stock(self, out: Path) -> Cost:
        data = self.scratch / "digits"
        return cost_of(
            sys.executable, "-m", "bench.overhead_stock", data, out, self.epochs, log=out / "log.txt"
        )

    @property
    def epochs(self) -> int:
        return 3 if self.quick else 30

    def cached(self) -> list[Figure]:
        """A fully cached re-run: ours against stock TFX's."""
        ours, theirs = self.fresh("ours"), self.fresh("stock")
        settings = ("digits", "--set", f"train.epochs={self.epochs}", "--set", "evaluation.min_accuracy=0.1")
        self.headrace(ours, *settings)
        self.stock(theirs)
        values = interleaved(
            self.rounds + 2,
            {"ours": lambda: self.headrace(ours, *settings), "other": lambda: self.stock(theirs)},
        )
        costs = [item.cpu_s for item in values["ours"]]
        memory = max(item.memory_mb for item in values["ours"])
        self.facts["cached_run_memory_mb"] = memory
        self.facts["cached_run_under_limits"] = max(costs) < CACHED_LIMIT_S and memory < CACHED_LIMIT_MB
        return [Figure.of("cached_run_cpu_s", costs, [item.cpu_s for item in values["other"]], "s", "<= 0.3")]

    def against_stock(self) -> list[Figure]:
        """The default run of digits, from nothing, against the same chain in stock TFX.

        Stock TFX has no Rewriter, and validates in Docker alone; the second
        figure leaves out what ours takes for these two.
        """
        settings = ("digits", "--set", f"train.epochs={self.epochs}", "--set", "evaluation.min_accuracy=0.1")
        values = interleaved(
            self.rounds,
            {
                "ours": lambda: (self.headrace(self.fresh("ours"), *settings).cpu_s, self._nodes()),
                "other": lambda: (self.stock(self.fresh("stock")).cpu_s, {}),
            },
        )
        whole = [cpu_s for cpu_s, _ in values["ours"]]
        same = [cpu_s - sum(nodes[name]["cpu_s"] for name in OURS_ALONE) for cpu_s, nodes in values["ours"]]
        theirs = [cpu_s for cpu_s, _ in values["other"]]
        self.facts["nodes_of_a_run"] = values["ours"][-1][1]
        return [
            Figure.of("run_vs_stock_tfx", whole, theirs, "s", "<= 0.5"),
            Figure.of("same_nodes_vs_stock_tfx", same, theirs, "s", ""),
        ]

    def against_script(self) -> list[Figure]:
        """Taxi-like rows, five epochs, against a script that does the same by hand."""
        figures = []
        for rows in (2_000,) if self.quick else (2_000, 20_000, 100_000):
            table = self.scratch / f"rows-{rows}.csv"
            write_csv(table, rows)
            experiment = self.scratch / f"rows-{rows}.yaml"
            experiment.write_text(_EXPERIMENT.format(path=table, epochs=EPOCHS))
            values = interleaved(
                self.rounds,
                {
                    "ours": lambda path=experiment: self.headrace(self.fresh("ours"), path).cpu_s,
                    "other": lambda path=table: self._script(path),
                },
            )
            goal = "<= 1.25" if rows == 100_000 else ""
            name = f"run_vs_script_{rows // 1000}k"
            figures.append(Figure.of(name, values["ours"], values["other"], "s", goal))
            self.facts[f"nodes_of_{name}"] = self._nodes()
        return figures

    def _script(self, table: Path) -> float:
        out = self.fresh("script")
        command = (sys.executable, "-m", "bench.overhead_script", table, out, EPOCHS)
        return cost_of(*command, log=out / "log.txt").cpu_s

    def _nodes(self) -> dict[str, dict[str, float]]:
        """Node -> CPU seconds and memory of the latest run of ours."""
        from pipelines.lineage.database import Database
        from pipelines.lineage.store import Store

        newest = max(self.scratch.glob("ours-*/metadata.db"), key=lambda path: path.stat().st_mtime)
        with Store(Database(newest)) as store:
            nodes = store.nodes(store.find_run("latest").run_id)
        return {
            node.node: {key: float(node.properties.get(key, 0)) for key in ("cpu_s", "peak_memory_mb")}
            for node in nodes
        }

    def evaluation(self) -> list[Figure]:
        """Metrics of 100,000 rows, predictions included: the vectorised engine against TFMA's."""
        rows = 5_000 if self.quick else 100_000
        model = self.fresh("model")
        log = self.scratch / "evaluation.log"
        module = (sys.executable, "-m", "bench.overhead_evaluation")
        cost_of(*module, "make", model, rows, log=log)

        def measure(engine: str) -> Callable[[], float]:
            def go() -> float:
                out = self.fresh(engine)
                cost_of(*module, engine, model, out, log=log)
                return float(json.loads((out / "cost.json").read_text())["cpu_s"])

            return go

        values = interleaved(self.rounds, {"ours": measure("vectorized"), "other": measure("tfma")})
        # A speed: how many rows a second, so that more is better.
        speeds = {name: [rows / seconds for seconds in costs] for name, costs in values.items()}
        return [Figure.of("evaluation_vs_tfma", speeds["ours"], speeds["other"], "rows/s", ">= 10")]


_EXPERIMENT = """
name: rows
data: {{path: {path}, label: label, exclude: [tips]}}
model: {{family: tabular, name: mlp, categorical: [pickup_area]}}
train: {{epochs: {epochs}, batch_size: 256, early_stopping_patience: 100}}
rewrite: {{candidates: [frozen], max_drop: 100.0}}
evaluation: {{min_accuracy: 0.0}}
"""


def main() -> None:
    if sys.argv[1:2] == ["--watch"]:
        _watch(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="cached,stock,script,evaluation")
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with tempfile.TemporaryDirectory(prefix="overhead-") as name:
        bench = Bench(Path(name), quick=options.quick)
        from pipelines.datasets import digits

        digits.write(bench.scratch / "digits")
        measures = {
            "cached": bench.cached,
            "stock": bench.against_stock,
            "script": bench.against_script,
            "evaluation": bench.evaluation,
        }
        figures = [figure for key in options.only.split(",") for figure in measures[key]()]
        for key, nodes in bench.facts.items():
            if isinstance(nodes, dict):
                rows = [
                    (node, f"{v['cpu_s']:.1f}", f"{v['peak_memory_mb']:.0f}") for node, v in nodes.items()
                ]
                print_table(key, ("node", "CPU s", "peak MB"), rows)
        report("overhead", figures, bench.facts)


if __name__ == "__main__":
    main()

"""Kills the digits chain at seeded moments, resumes it each time, and looks at what came of it.

python -m tests.endure.kills --kills 200 --seed 1
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import WarmCommands
from tests.endure import collecting, processes, state

SETTINGS = {
    "train.epochs": 3,
    "train.deterministic": "true",
    "train.checkpoint.every_steps": 5,
    "rewrite.candidates": "[frozen]",
    "evaluation.min_accuracy": 0.2,
}
NODES = (
    "ExampleGen",
    "StatisticsGen",
    "SchemaGen",
    "ExampleValidator",
    "DataGate",
    "Transform",
    "Trainer",
    "Rewriter",
    "Evaluator",
    "InfraValidator",
    "Pusher",
)

KINDS = ("program", "program", "node", "server")
GC_S = 0.4
"""Kills of gc are drawn from so many seconds after its start."""


@dataclass(frozen=True)
class Moment:
    """Kill `kind` when `node` has been running for `after_s`."""

    kind: str
    node: str
    after_s: float

    @classmethod
    def draw(cls, rng: random.Random, seconds: Mapping[str, float]) -> Moment:
        """Draws one; `seconds` says how long each node takes undisturbed."""
        kind = rng.choice(KINDS)
        node = "InfraValidator" if kind == "server" else rng.choice(NODES)
        return cls(kind, node, rng.uniform(0, 1.1 * seconds[node]))


@dataclass
class Chain:
    """One workspace, whose run is killed until it has come to its end."""

    headrace: WarmCommands
    workspace: Path
    reference: str = ""
    killed: list[Moment] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)

    def run(self, moments: list[Moment]) -> None:
        """A kill for each moment, then a last resume that nobody disturbs."""
        for moment in moments:
            if self._go(moment) == 0:
                return
        code = self._go(None)
        if code:
            self.unexpected.append(f"the last resume ended with {code}")

    def collect(self, rng: random.Random) -> list[str]:
        """Kills gc where there is something to remove, then runs the chain again; what is wrong."""
        wrong = collecting.make_garbage(self.headrace, self.workspace, rng)
        after_s = rng.uniform(0, GC_S)
        hit, done = collecting.kill_gc(self.headrace, self.workspace, after_s)
        if hit:
            self.killed.append(Moment("gc", "", after_s))
        elif done.code:
            wrong.append(f"gc ended with {done.code}: {done.err[-400:]}")
        if code := self._go(None):
            wrong.append(f"the run after gc ended with {code}")
        return wrong + collecting.faults(self.headrace, self.workspace) + self._pushed_faults()

    def _go(self, moment: Moment | None) -> int:
        overrides = [f"--set={key}={value}" for key, value in SETTINGS.items()]
        arguments = ["run", "digits", "--resume", f"--workspace={self.workspace}", *overrides]
        hit: list[Moment] = []
        done = self.headrace(*arguments, meanwhile=lambda pid: self._disturb(pid, moment, hit))
        self.killed += hit
        expected = {0} if not hit else {"program": {-9, 0}, "node": {1}, "server": {0, 1}}[hit[0].kind]
        if done.code not in expected:
            self.unexpected.append(f"{hit or 'undisturbed'}: exit {done.code}: {done.err[-400:]}")
        if hit and hit[0].kind == "node" and "SIGKILL" not in done.err:
            self.unexpected.append(f"{hit[0]}: {done.err[-400:]}")
        return done.code

    def _disturb(self, pid: int, moment: Moment | None, hit: list[Moment]) -> None:
        if moment is None:
            return
        before = _lines(self.workspace)
        began = 0.0
        while processes.kill_possible(pid):
            time.sleep(0.01)
            if not began and any(
                _is_running(line, moment.node) for line in _lines(self.workspace)[len(before) :]
            ):
                began = time.monotonic()
            if began and time.monotonic() - began >= moment.after_s and self._kill(pid, moment):
                hit.append(moment)
                return

    def _kill(self, pid: int, moment: Moment) -> bool:
        if moment.kind == "program":
            return processes.kill(pid)
        if moment.kind == "server":
            return any(processes.kill(server.pid) for server in processes.servers(pid))
        newest = max((self.workspace / "runs").iterdir(), key=lambda path: path.stat().st_ctime)
        node = processes.node_pid(pid, newest / f"{moment.node}.log")
        return node is not None and processes.kill(node)

    def check(self) -> list[str]:
        """What is wrong in the end."""
        records = state.runs(self.workspace)
        wrong = list(self.unexpected)
        finished = [record for record in records if record.state == "complete"]
        if len(finished) != 1:
            return [*wrong, f"{len(finished)} finished runs of {[r.state for r in records]}"]
        run_id = finished[0].run_id
        wrong += state.faults(self.workspace, run_id, set(NODES))
        wrong += self._pushed_faults()
        if self.reference and state.weights(self.workspace, run_id) != self.reference:
            wrong.append("the trained weights differ from an undisturbed training's")
        return wrong

    def _pushed_faults(self) -> list[str]:
        versions = [path.name for path in (self.workspace / "serving" / "digits").glob("[0-9]*")]
        return [] if versions == ["1"] else [f"pushed versions: {versions}"]

    def seconds(self) -> dict[str, float]:
        """How long each node of the finished run took."""
        found = state.nodes(self.workspace, state.runs(self.workspace)[-1].run_id)
        return {node.node: float(node.properties.get("wall_s", 0.0)) for node in found}


def _lines(workspace: Path) -> list[str]:
    """Whole lines: the last may just be being written, and one that a kill cut short stays so."""
    return [
        line
        for path in sorted((workspace / "runs").glob("*/events.jsonl"))
        for line in path.read_text().splitlines(keepends=True)
        if line.endswith("}\n")
    ]


def _is_running(line: str, node: str) -> bool:
    event = json.loads(line)
    return event["node"] == node and event["state"] == "running"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--per-chain", type=int, default=8)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="endure-"))
    folder.mkdir(parents=True, exist_ok=True)
    headrace = WarmCommands(folder)
    try:
        return _endure(headrace, folder, options)
    finally:
        headrace.close()


def _endure(headrace: WarmCommands, folder: Path, options: argparse.Namespace) -> int:
    rng = random.Random(options.seed)
    undisturbed = Chain(headrace, folder / "reference")
    undisturbed.run([])
    faults = undisturbed.check()
    reference = state.weights(undisturbed.workspace, state.runs(undisturbed.workspace)[0].run_id)
    seconds = undisturbed.seconds()
    print(f"undisturbed: {faults or 'sound'}", flush=True)
    kills = number = 0
    while kills < options.kills:
        number += 1
        chain = Chain(headrace, folder / f"chain-{number}", reference)
        wanted = min(options.per_chain, options.kills - kills)
        chain.run(sorted((Moment.draw(rng, seconds) for _ in range(wanted)), key=_order))
        found = chain.check()
        found += chain.collect(rng)
        faults += found
        kills += len(chain.killed)
        print(f"chain {number}: {len(chain.killed)} kills, {kills} in all: {found or 'sound'}", flush=True)
        if not found:
            shutil.rmtree(chain.workspace)
    print(f"{kills} kills, {len(faults)} faults")
    return 1 if faults else 0


def _order(moment: Moment) -> tuple[int, float]:
    """Along the chain, so that each kill still meets its node."""
    return NODES.index(moment.node), moment.after_s


if __name__ == "__main__":
    sys.exit(main())

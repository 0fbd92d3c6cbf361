"""Retraining left alone, on simulated days: python -m bench.retraining_simulation [--quick] [--days N]

Seeded daily files with planted trouble: covariate and label drift, late and
missing days, a day with shuffled labels, a corrupt file, schedulers and servers
that are killed. The real chain runs on every day that asks for it; a server
answers light load all the while. What is required stands in `_figures`.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from bench import common
from components import subprocesses
from components.serving_pusher import root as serving_root
from pipelines import config, operations
from pipelines.errors import NotFoundError
from pipelines.lineage import query
from pipelines.lineage.open import record_of
from pipelines.retraining import assembly
from pipelines.retraining.chain import LocalChain
from pipelines.workspace import Workspace
from tests.components.serving.server.running_server import free_ports

FIRST = date(2026, 1, 1)
ROWS = 700
FEATURES = ("distance", "hour", "district")
DISTRICTS = ("north", "south", "east", "west")
HOUR_S = 3600.0


class Killed(BaseException):
    """Stands for a SIGKILL of the scheduler."""


@dataclass(frozen=True)
class Plan:
    """Which days are in trouble, counted from 0.

    Attributes:
        days: simulated.
        covariate: from this day on distances are longer.
        label: from this day on another rule gives the labels.
        late: its file comes two days later.
        missing: its file never comes.
        shuffled: its labels are shuffled.
        corrupt: its file is cut in the middle of a row, with bytes that are no text.
        killed: on these days the scheduler is killed in its round.
        servers: on these days the server is killed.
        rollback: on this day somebody rolls back by hand, and forward again.
    """

    days: int
    covariate: int
    label: int
    late: int
    missing: int
    shuffled: int
    corrupt: int
    killed: tuple[int, int]
    servers: tuple[int, int]
    rollback: int

    @classmethod
    def of(cls, days: int, seed: int) -> Plan:
        """Trouble on days of their own, none on the first three."""
        picked = sorted(random.Random(seed).sample(range(3, days), 10))
        random.Random(seed + 1).shuffle(picked)
        return cls(days, *picked[:6], (picked[6], picked[7]), (picked[8], picked[9]), picked[9])


def rows(plan: Plan, day: int, seed: int, count: int = ROWS) -> list[dict[str, str]]:
    """A day's labelled rows, sound ones."""
    rng = np.random.default_rng([seed, day])
    far = 4.0 if day >= plan.covariate else 0.0
    sign = -1.0 if day >= plan.label else 1.0
    made = []
    for _ in range(count):
        distance, hour = float(rng.gamma(2.0, 2.0) + far), float(rng.uniform(0, 24))
        district = DISTRICTS[int(rng.integers(len(DISTRICTS)))]
        score = sign * (0.8 * (distance - 4.0 - far) + (2.0 if district in ("north", "east") else -2.0))
        noisy = rng.uniform() < 0.05
        tip = (score > 0) != noisy
        made.append(
            {
                "distance": f"{distance:.3f}",
                "hour": f"{hour:.2f}",
                "district": district,
                "label": "yes" if tip else "no",
            }
        )
    return made


def write(path: Path, made: Sequence[Mapping[str, str]]) -> None:
    """Writes a day's file, whole or not at all."""
    scratch = path.with_name(f".{path.name}")
    with open(scratch, "w", newline="") as file:
        writer = csv.DictWriter(file, [*FEATURES, "label"])
        writer.writeheader()
        writer.writerows(made)
    scratch.rename(path)


@dataclass
class Server:
    """The embedded server in a process of its own, and a client that never rests in another."""

    folder: Path
    scratch: Path
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.port, self.rest_port = free_ports()
        self.scratch.mkdir()

    def start(self, request: bytes) -> None:
        """Starts server and client, and waits until there are answers."""
        (self.scratch / "request.pb").write_bytes(request)
        self._run("client", "-m", "bench.steady_client", str(self.scratch), str(self.port))
        self._serve()

    def restart(self) -> None:
        """Kills the server and starts it again."""
        (self.scratch / "up").unlink()
        time.sleep(0.5)  # what is under way is answered
        self._processes["server"].send_signal(signal.SIGKILL)
        self._processes["server"].wait()
        self._serve()

    def counts(self) -> dict[str, int]:
        path = self.scratch / "counts.json"
        return (
            dict(json.loads(path.read_text())) if path.exists() else {"asked": 0, "failed": 0, "answers": 0}
        )

    def end(self) -> None:
        for process in self._processes.values():
            process.terminate()
            process.wait()

    def _serve(self) -> None:
        ports = [f"--port={self.port}", f"--rest-port={self.rest_port}"]
        base = [f"--model_base_path={self.folder}", "--model_name=tips"]
        self._run("server", "-m", "pipelines.cli.main", "serve", *base, *ports)
        before = self.counts()["answers"]
        deadline = time.monotonic() + 180
        while self.counts()["answers"] <= before + 2:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server does not answer; see {self.scratch}/server.log")
            time.sleep(0.3)
        (self.scratch / "up").touch()

    def _run(self, name: str, *arguments: str) -> None:
        with open(self.scratch / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log)


def request_of(row: Mapping[str, str]) -> Any:
    """A Predict request for one row."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "tips", "serving_default"
    request.inputs["examples"].CopyFrom(tf.make_tensor_proto([example(row)]))
    return request


def example(row: Mapping[str, str]) -> bytes:
    """A row as a serialized tf.train.Example."""
    features = {
        "distance": tf.train.Feature(float_list=tf.train.FloatList(value=[float(row["distance"])])),
        "hour": tf.train.Feature(float_list=tf.train.FloatList(value=[float(row["hour"])])),
        "district": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["district"].encode()])),
        "label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["label"].encode()])),
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


@dataclass(frozen=True)
class ScoreTask:
    """Version folders, serialized Examples, their classes, and the file that takes the accuracies."""

    folders: list[str]
    records: list[bytes]
    truth: list[str]
    output: str


def score(task: ScoreTask) -> None:
    """Accuracy of each version; in a process of its own, since TensorFlow does not survive a fork."""
    from components.serving import runtimes

    found = []
    for folder in task.folders:
        model = runtimes.load_version(Path(folder))
        said = np.array(model.servable.class_names)[model.predict(task.records).scores.argmax(1)]
        found.append(float((said == np.array(task.truth)).mean()))
    Path(task.output).write_text(json.dumps(found))


@dataclass
class Simulation:
    """Days, one after another."""

    plan: Plan
    seed: int
    folder: Path
    now: float = field(init=False)
    sightings: list[tuple[float, int]] = field(default_factory=list)
    rollback_s: float = math.nan
    worse: list[str] = field(default_factory=list)
    drift_seen: dict[int, list[str]] = field(default_factory=dict)
    kills: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.now = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC).timestamp()
        self.data = self.folder / "data"
        self.data.mkdir()
        self.golden = self.folder / "golden.csv"
        write(self.golden, rows(self.plan, 0, self.seed + 999, 400))
        self.workspace = Workspace.open(self.folder / "workspace", create=True)
        self.root = self.workspace.serving_root("tips")
        self.server: Server | None = None

    def experiment(self) -> config.Experiment:
        return config.from_mapping(
            {
                "name": "tips",
                "data": {"path": str(self.data / "{YYYY}-{MM}-{DD}.csv"), "format": "csv", "window": 3},
                "model": {"family": "tabular", "hidden": [16]},
                "train": {"epochs": 4, "batch_size": 64, "tensorboard": False, "deterministic": True},
                "rewrite": {"candidates": ["frozen"], "max_drop": 3.0},
                "evaluation": {"min_accuracy": 0.6, "min_class_accuracy": 0.3, "max_drop": 1.0},
                "retraining": {
                    "on_new_span": True,
                    "on_drift": True,
                    "max_drop": 4.0,
                    "drift": {"default": 0.15},
                },
            }
        )

    def day(self, day: int) -> None:
        """One day: files arrive at two, the scheduler looks every hour, the server answers."""
        for number in self._arriving(day):
            self._arrive(number)
        for hour in range(24):
            self.now += HOUR_S
            if hour == 2:
                self._work(day)
            if hour == 12:
                self._midday(day)
            self.sightings.append((time.time(), serving_root.in_service(self.root) or 0))

    def _arriving(self, day: int) -> Iterator[int]:
        if day not in (self.plan.late, self.plan.missing):
            yield day
        if day - 2 == self.plan.late:
            yield self.plan.late

    def _arrive(self, day: int) -> None:
        path = self.data / f"{FIRST + timedelta(days=day)}.csv"
        made = rows(self.plan, day, self.seed)
        if day == self.plan.shuffled:
            labels = [row["label"] for row in made]
            random.Random(self.seed).shuffle(labels)
            made = [{**row, "label": label} for row, label in zip(made, labels, strict=True)]
        write(path, made)
        if day == self.plan.corrupt:
            content = path.read_bytes()
            path.write_bytes(content[: len(content) // 2] + b"\xff\xfe\x00broken")

    def _work(self, day: int) -> None:
        """The scheduler until nothing is due; killed once on the days that say so."""
        while True:
            scheduler = assembly.scheduler(
                self.experiment(), self.workspace, self._tell, clock=lambda: self.now, sleep=self._sleep
            )
            if day in self.plan.killed and day not in self.kills:
                scheduler = _dying(scheduler)
            before = serving_root.in_service(self.root)
            try:
                step = scheduler.once()
            except Killed:
                self.kills.add(day)
                continue
            if step.decision.action == "wait":
                return
            if step.record is not None and step.record.outcome == "promoted" and before:
                self._compare(day, before, step.record.version)
            self._serve()

    def _compare(self, day: int, before: int, after: int) -> None:
        """Ground truth: both versions on rows of this day that neither has seen."""
        fresh = rows(self.plan, day, self.seed + 5_000, 2_000)
        records = [example(row) for row in fresh]
        truth = [row["label"] for row in fresh]
        folders = [serving_root.folder_of(self.root, number) for number in (before, after)]
        if None in folders:
            return
        target = self.folder / "scores.json"
        task = ScoreTask([str(folder) for folder in folders], records, truth, str(target))
        subprocesses.run(score, task, limits=subprocesses.Limits(seconds=600))
        scores = json.loads(target.read_text())
        # Beyond what 2,000 rows may differ by chance.
        if scores[1] < scores[0] - 0.03:
            self.worse.append(f"day {day}: {scores[1]:.3f} after {scores[0]:.3f}")

    def _serve(self) -> None:
        """Starts the server once there is something to serve."""
        if self.server is None and serving_root.in_service(self.root):
            self.server = Server(self.root, self.folder / "server")
            self.server.start(request_of(rows(self.plan, 0, self.seed, 1)[0]).SerializeToString())

    def _midday(self, day: int) -> None:
        if self.server is None:
            return
        if day in self.plan.servers:
            self.server.restart()
        versions = serving_root.versions(self.root)
        if day == self.plan.rollback and len(versions) > 1:
            began = time.monotonic()
            operations.roll_back(self.workspace, "tips", None, "a trial", time.time())
            self.rollback_s = time.monotonic() - began
            operations.roll_back(self.workspace, "tips", versions[-1], "and back", time.time())

    def _tell(self, line: str) -> None:
        print(f"{datetime.fromtimestamp(self.now, UTC):%Y-%m-%d %H:%M} {line}", flush=True)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def _dying(scheduler: Any) -> Any:
    """The scheduler with a chain that dies after training."""
    from dataclasses import replace

    class Dying(LocalChain):
        def compare(self, record: Any) -> list[str]:
            raise Killed

    chain = scheduler.chain
    chain.__class__ = Dying
    return replace(scheduler, chain=chain)


def _figures(simulation: Simulation) -> tuple[list[tuple[str, object, str, bool]], dict[str, Any]]:
    """What is required, what was found, and whether it holds."""
    plan = simulation.plan
    scheduler = assembly.scheduler(
        simulation.experiment(), simulation.workspace, lambda line: None, looks_only=True
    )
    records = scheduler.ledger.records()
    by_day = {
        span - (FIRST - date(1970, 1, 1)).days: record for record in records for span, _ in _own(record)
    }
    bad = {
        "shuffled labels": by_day.get(plan.shuffled),
        "corrupt file": by_day.get(plan.corrupt),
    }
    named = [what for what, record in bad.items() if record and record.outcome in ("refused", "bad_data")]
    late = by_day.get(plan.late)
    wrong_traces = _wrong_traces(simulation)
    lasting = [record.trigger for record in records if not record.outcome]
    counts = simulation.server.counts() if simulation.server else {"asked": 0, "failed": 0}
    rows_of = [
        ("bad days named in the history", ", ".join(named), "both", len(named) == len(bad)),
        ("worse models promoted", "; ".join(simulation.worse) or 0, "0", not simulation.worse),
        ("the late day was used", late.outcome if late else "no", "used", late is not None),
        ("rounds that never ended", len(lasting), "0", not lasting),
        ("schedulers killed and gone on", len(simulation.kills), "2", len(simulation.kills) == 2),
        ("rollback, s", round(simulation.rollback_s, 2), "< 10", simulation.rollback_s < 10),
        (
            "failed requests while the server was up",
            f"{counts['failed']} of {counts['asked']}",
            "0",
            counts["asked"] > 0 and not counts["failed"],
        ),
        ("hours with a wrong trace", wrong_traces, "0", wrong_traces == 0),
    ]
    outcomes: dict[str, int] = {}
    for record in records:
        outcomes[record.outcome] = outcomes.get(record.outcome, 0) + 1
    return rows_of, {"days": plan.days, "outcomes": outcomes, "plan": vars(plan)}


def _own(record: Any) -> list[tuple[int, int]]:
    """The span that a round was about."""
    name, _, rest = record.trigger.partition("-")
    if name != "span":
        return []
    span, _, version = rest.partition("v")
    return [(int(span), int(version))]


def _wrong_traces(simulation: Simulation) -> int:
    wrong = 0
    with record_of(simulation.workspace) as source:
        for at, version in simulation.sightings:
            try:
                history = query.services(source.pushes_around("tips", at), source.switches("tips"))
                serving, _ = query.serving_at(history, at)
            except NotFoundError:
                serving = None
            wrong += (serving.version if serving else 0) != version
    return wrong


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulates, prints what is required and what was found, and writes bench/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="14 days instead of 90")
    parser.add_argument("--days", type=int)
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args(arguments)
    days = given.days or (14 if given.quick else 90)
    with tempfile.TemporaryDirectory(prefix="headrace-simulation-") as folder:
        simulation = Simulation(Plan.of(days, given.seed), given.seed, Path(folder))
        try:
            for day in range(days):
                simulation.day(day)
            required, facts = _figures(simulation)
        finally:
            if simulation.server is not None:
                simulation.server.end()
    common.print_table(
        f"{days} simulated days",
        ("what", "found", "required", "holds"),
        [tuple(map(str, row)) for row in required],
    )
    print(facts["outcomes"])
    common.report(
        "retraining_simulation", [], {**facts, "required": [list(map(str, row)) for row in required]}
    )


if __name__ == "__main__":
    main()

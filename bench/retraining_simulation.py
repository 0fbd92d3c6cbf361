"""Retraining left alone, on simulated days: python -m bench.retraining_simulation [--quick] [--days N]

Seeded daily files with planted trouble: covariate and label drift, late and
missing days, a day with shuffled labels, a corrupt file, schedulers and servers
that are killed, a version that seems slow. The real chain runs on every day
that asks for it; a server answers light load all the while. What is required
stands in `bench.retraining_figures`; where something does not hold, the exit
code is 1.

    --folder F       keep everything in F, and go on with the day that F has come to
    --figures        only compute the figures of what lies in F
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from bench import common, retraining_figures
from bench.retraining_days import FIRST, WINDOW, Plan, arrive, arriving, rows
from bench.retraining_journal import Journal
from bench.retraining_server import MODEL, Server, example, request_of
from components.serving_pusher import root as serving_root
from pipelines import cleaning, config, operations
from pipelines.retraining import assembly, feedback
from pipelines.retraining.ledger import Ledger, Record
from pipelines.retraining.scheduler import Scheduler
from pipelines.telemetry.notices import DEBUG, Notice
from pipelines.workspace import Workspace

HOUR_S = 3600.0
OUTCOMES = 240
KEEP_VERSIONS = 5
SEED = 3
NAME = "retraining_simulation"


def experiment(folder: Path, url: str, *, slow: bool) -> config.Experiment:
    """What is trained again; `slow` makes any answer count as too slow."""
    watch = {"minutes": 5, "every_s": 30, "min_requests": 5, "max_latency_ratio": 1e-6 if slow else 20.0}
    return config.from_mapping(
        {
            "name": MODEL,
            "data": {
                "path": str(folder / "data" / "{YYYY}-{MM}-{DD}.csv"),
                "format": "csv",
                "window": WINDOW,
            },
            "model": {"family": "tabular", "hidden": [16]},
            "train": {
                "epochs": 15,
                "batch_size": 64,
                "learning_rate": 0.02,
                "tensorboard": False,
                "deterministic": True,
            },
            "rewrite": {"candidates": ["frozen"], "max_drop": 3.0},
            "evaluation": {"min_accuracy": 0.6, "min_class_accuracy": 0.3, "max_drop": 1.0},
            "push": {"server": {"url": url}},
            "retraining": {
                "on_new_span": True,
                "on_drift": True,
                "drift": {"default": 0.15},
                "live": {"min_accuracy": 0.8, "outcomes": 200},
                "max_drop": 4.0,
                "watch": {**watch, "url": url},
            },
        }
    )


class Simulation:
    """Days, one after another, in a folder that is all there is to know."""

    def __init__(self, folder: Path, plan: Plan, seed: int) -> None:
        self.folder, self.plan, self.seed = folder, plan, seed
        self.data = folder / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.workspace = Workspace.open(folder / "workspace", create=True)
        self.root = self.workspace.serving_root(MODEL)
        self.ledger = Ledger(self.workspace, MODEL)
        self.journal = Journal(folder)
        self.server = Server(self.root, folder / "server")
        self._schedulers: dict[bool, Scheduler] = {}
        self._victim: multiprocessing.process.BaseProcess | None = None
        self.now = 0.0
        self.day = 0

    def go_on(self) -> None:
        """All days that are left."""
        self.server.start(request_of(rows(self.plan, 0, self.seed, 1)[0]).SerializeToString())
        for day in range(self.journal.days_done(), self.plan.days):
            began = time.monotonic()
            self.day, self.now = day, _midnight(day)
            self._live_through(day)
            self.journal.note("done", day, seconds=time.monotonic() - began)
            self._tell(f"day {day} took {time.monotonic() - began:.0f} s")

    def close(self) -> None:
        if self._victim is not None and self._victim.is_alive():
            self._victim.kill()  # else it would be waited for
        self.server.end()

    def _live_through(self, day: int) -> None:
        """Files arrive at one, the scheduler looks at two and at night, outcomes come in the evening."""
        for hour in range(24):
            self.now = max(self.now, _midnight(day) + HOUR_S * hour)
            self._hour(day, hour)
            self.journal.note("sighting", day, at=time.time(), version=self._in_service())

    def _hour(self, day: int, hour: int) -> None:
        if hour == 1:
            for number in arriving(self.plan, day):
                arrive(self.data, self.plan, number, self.seed)
        elif hour in (2, 22):
            self._work(day)
        elif hour == 12:
            self._midday(day)
        elif hour == 20:
            self._outcomes(day)
        elif hour == 23:
            self._clean(day)

    def _in_service(self) -> int:
        return serving_root.in_service(self.root) or 0

    def _scheduler(self) -> Scheduler:
        slow = self._is_slow_due()
        if slow not in self._schedulers:
            settings = experiment(self.folder, self.server.url, slow=slow)
            self._schedulers[slow] = assembly.scheduler(
                settings, self.workspace, self._hear, clock=lambda: self.now, sleep=self._sleep
            )
        return self._schedulers[slow]

    def _is_slow_due(self) -> bool:
        """Whether the next version is to seem slow: until one was taken back."""
        taken_back = any(record.outcome == "rolled_back" for record in self.ledger.records())
        return self.day >= self.plan.slow and self._in_service() > 0 and not taken_back

    def _is_due(self, what: str, days: Sequence[int]) -> bool:
        """Whether a planned trouble is still to come; one that found no occasion is made up for."""
        return sum(day <= self.day for day in days) > len(self.journal.of(what))

    def _work(self, day: int) -> None:
        """The scheduler until nothing is due."""
        while True:
            before = self._in_service()
            if self._is_due("scheduler killed", self.plan.killed):
                self._killed_scheduler(day)
            step = self._scheduler().once()
            after = self._in_service()
            if before and after > before:
                self._keep(day, before, after)
            if after and not self.server.is_counted:
                self.server.count_from_now()
            if step.decision.action == "wait":
                return

    def _killed_scheduler(self, day: int) -> None:
        """A scheduler in a process of its own, killed as it trains, the next one as its version goes in."""
        ready = (self._trains, self._has_pushed)[len(self.journal.of("scheduler killed"))]
        arguments = (self.folder, self.plan, self.seed, day, self.now)
        self._victim = process = multiprocessing.get_context("spawn").Process(target=once, args=arguments)
        process.start()
        while process.is_alive():
            record = self.ledger.unfinished()
            if record is not None and process.pid is not None and ready(record):
                os.kill(process.pid, signal.SIGKILL)
                process.join()
                self.journal.note("scheduler killed", day, round=record.trigger, phase=record.phase)
                self._tell(f"scheduler killed while {record.phase}")
                return
            process.join(0.01)

    def _trains(self, record: Record) -> bool:
        return record.phase == "training" and bool(record.run_id)

    def _has_pushed(self, record: Record) -> bool:
        return record.phase in ("pushing", "watching") and self._in_service() != record.before

    def _keep(self, day: int, before: int, after: int) -> None:
        """Copies of both versions, so that they can be compared when they are long pruned."""
        for number in (before, after):
            folder, copy = serving_root.folder_of(self.root, number), self.folder / "versions" / str(number)
            if folder is not None and not copy.exists():
                shutil.copytree(folder, copy)
        self.journal.note("promoted", day, before=before, after=after)

    def _midday(self, day: int) -> None:
        if not self.server.is_counted:
            return
        if self._is_due("server killed", self.plan.servers):
            self.server.kill()
            self.journal.note("server killed", day, at=time.time())
        versions = serving_root.versions(self.root)
        if self._is_due("rollback", [self.plan.rollback]) and len(versions) > 1:
            operations.roll_back(self.workspace, MODEL, None, "a trial", time.time())
            self._settled(self._in_service())
            operations.roll_back(self.workspace, MODEL, versions[-1], "and back", time.time())
            self._settled(self._in_service())
            self.journal.note("rollback", day)

    def _settled(self, version: int) -> None:
        """Waits until the client has been answered by a version."""
        deadline = time.monotonic() + 60.0
        while self.journal.answering() != version and time.monotonic() < deadline:
            time.sleep(0.1)

    def _outcomes(self, day: int) -> None:
        """What the version in service says of rows of this day, and what was true."""
        if not self.server.is_counted:
            return
        seen = rows(self.plan, day, self.seed + 9_000, OUTCOMES)
        said = self.server.predictions([example(row) for row in seen])
        lines = [
            json.dumps({"prediction": answer, "label": row["label"]}) + "\n"
            for answer, row in zip(said, seen, strict=True)
        ]
        source = self.folder / "outcomes.jsonl"
        source.write_text("".join(lines))
        feedback.add(self.workspace, MODEL, source, self._in_service(), self.now)
        right = sum(answer == row["label"] for answer, row in zip(said, seen, strict=True))
        self.journal.note("outcomes", day, version=self._in_service(), accuracy=right / len(seen))

    def _clean(self, day: int) -> None:
        """What a cron job would do: old versions go, then what nothing needs."""
        if self._in_service():
            now = time.time()
            plan = operations.plan_prune(self.workspace, MODEL, KEEP_VERSIONS)
            operations.prune(self.workspace, MODEL, plan, now)
            cleaning.clean(self.workspace, cleaning.Policy(keep_runs=3, keep_days=0.0), now)
        payload = sum(cleaning.size(path) for path in (self.workspace.artifacts, self.workspace.serving))
        self.journal.note("disk", day, payload=payload, all=cleaning.size(self.workspace.root))

    def _hear(self, notice: Notice) -> None:
        if notice.level != DEBUG:
            self._tell(notice.message)

    def _tell(self, line: str) -> None:
        print(f"{datetime.fromtimestamp(self.now, UTC):%Y-%m-%d %H:%M} {line}", flush=True)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds
        time.sleep(min(seconds, 0.5))  # so that the watched server gets requests


def once(folder: Path, plan: Plan, seed: int, day: int, now: float) -> None:
    """One step of a scheduler, in a process that is going to be killed."""
    simulation = Simulation(folder, plan, seed)
    simulation.day, simulation.now = day, now
    simulation._scheduler().once()


def _midnight(day: int) -> float:
    return datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=UTC).timestamp() + 24 * HOUR_S * day


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulates, prints what is required and found, and writes bench/results; 1 where it does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="20 days instead of 90")
    parser.add_argument("--days", type=int, help="at least 20")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--figures", action="store_true")
    given = parser.parse_args(arguments)
    if given.figures and given.folder is None:
        parser.error("--figures needs --folder")
    plan = Plan.of(given.days or (20 if given.quick else 90), given.seed)
    if given.folder is not None:
        return _simulate(given.folder.absolute(), plan, given.seed, lives=not given.figures)
    with tempfile.TemporaryDirectory(prefix="headrace-simulation-") as folder:
        return _simulate(Path(folder), plan, given.seed, lives=True)


def _simulate(folder: Path, plan: Plan, seed: int, *, lives: bool) -> int:
    if lives:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # server and client end with it
        with closing(Simulation(folder, plan, seed)) as simulation:
            simulation.go_on()
    found = retraining_figures.figures(folder, plan, seed)
    common.print_table(
        f"{plan.days} simulated days",
        ("what", "found", "required", "holds"),
        [(item.name, item.found, item.required, "yes" if item.holds else "NO") for item in found],
    )
    facts = retraining_figures.facts(folder, plan)
    print(facts["outcomes"])
    common.report(NAME, [], {**facts, "required": [vars(item) for item in found]})
    return 0 if all(item.holds for item in found) else 1


if __name__ == "__main__":
    sys.exit(main())

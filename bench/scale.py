"""What Beam's stages cost spread over workers: rows a second, memory of a worker, and no work at all.

    python -m bench.scale [--quick] [--only rows|images|bulk|empty]

Taxi-like rows go through ExampleGen, StatisticsGen, Transform and the Evaluator,
and through bulk inference, on Beam's own runner, with 1, 2 and 4 of our pool's
workers. With one worker, a line through the two smaller of three sizes gives
what a row costs beside what a job costs, and is checked at the third. CPU
seconds are the workers' own: those of the coordinator, and waiting, are in the
wall clock. Takes half an hour on 2 cores; with --quick, fewer rows and workers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import psutil
import yaml
from PIL import Image

from bench.common import RESULTS, machine, print_table
from bench.taxi_like import LABEL, write_csv, write_records
from bench.taxi_servable import write_servable

if TYPE_CHECKING:
    from pipelines.beam_stage import Beam

STAGES = {
    "rows": ("ExampleGen", "StatisticsGen", "Transform", "Evaluator"),
    "images": ("ExampleGen", "StatisticsGen", "Transform"),
    "bulk": ("bulk inference",),
}
"""What is read -> the stages that are measured."""

PIXELS = 224
FILES = 8
"""So many files are read: a worker takes whole ones."""

EMPTY_JOB = "empty job"


@dataclass(frozen=True)
class Measured:
    """A stage at one size.

    Attributes:
        what: was read: rows, images, or rows in bulk; or nothing.
        stage: its node, bulk inference, or `EMPTY_JOB`.
        workers: how many.
        rows: of all splits, or images.
        wall_s: from the node's start to its end.
        cpu_s: of all workers together.
        memory_mb: resident memory of the largest worker, the pool's shared pages included.
        own_mb: of that, what no other process shares.
    """

    what: str
    stage: str
    workers: int
    rows: int
    wall_s: float
    cpu_s: float
    memory_mb: float
    own_mb: float


class Watch:
    """Samples the worker processes of a pool."""

    def __init__(self, pool: int) -> None:
        self._pool = psutil.Process(pool)
        self._ended = threading.Event()
        self._cpu: dict[tuple[int, float], float] = {}
        self._samples: list[tuple[float, float, float, float]] = []
        self._sample()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def between(self, began: float, ended: float) -> tuple[float, float, float]:
        """From one time to another, seconds since 1970: CPU seconds of all workers, the most MiB, own MiB."""
        before = max((cpu for at, cpu, *_ in self._samples if at <= began), default=0.0)
        inside = [sample for sample in self._samples if began <= sample[0] <= ended]
        cpu, whole, own = (max((sample[index] for sample in inside), default=0.0) for index in (1, 2, 3))
        return max(cpu - before, 0.0), whole, own

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            self._sample()

    def _sample(self) -> None:
        whole = own = 0.0
        with contextlib.suppress(psutil.Error):
            # The pool's one child of interest forks the workers.
            for worker in (grandchild for child in self._pool.children() for grandchild in child.children()):
                with contextlib.suppress(psutil.Error):
                    used, memory = worker.cpu_times(), worker.memory_full_info()
                    self._cpu[worker.pid, worker.create_time()] = used.user + used.system
                    whole, own = max(whole, memory.rss / 2**20), max(own, memory.uss / 2**20)
        self._samples.append((time.time(), sum(self._cpu.values()), whole, own))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def _started(command: Sequence[str], port: int, log: Path) -> Iterator[int]:
    with log.open("ab") as output:
        process = subprocess.Popen(list(command), stdout=output, stderr=output)
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            if process.poll() is not None:
                raise RuntimeError(f"{command} ended: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


@dataclass(frozen=True)
class Engine:
    """A pool that runs: its address, and a watch over its workers."""

    pool: str
    watch: Watch

    def settings(self, workers: int) -> Beam:
        """What stands under `beam:`."""
        from pipelines.beam_stage import Beam

        return Beam(pool=self.pool, parallelism=workers)

    def since(self, began: float, what: str, stage: str, workers: int, rows: int) -> Measured:
        """What a stage took from `began` to now."""
        ended = time.time()
        time.sleep(0.5)  # the last sample
        return Measured(what, stage, workers, rows, ended - began, *self.watch.between(began, ended))


@contextlib.contextmanager
def engine(folder: Path) -> Iterator[Engine]:
    """A pool that has imported what it imports once, which is no stage's."""
    port = _free_port()
    command = [sys.executable, "-m", "components.beam_pool", "--port", str(port)]
    with _started(command, port, folder / "pool.log") as pid:
        found = Engine(f"localhost:{port}", Watch(pid))
        try:
            empty_job(found.settings(1), folder)
            yield found
        finally:
            found.watch.stop()


def experiment(data: Path, what: str) -> dict[str, object]:
    """An experiment over such rows or images."""
    kinds: dict[str, dict[str, object]] = {
        "rows": {
            "data": {"path": str(data), "format": "csv", "label": LABEL},
            "model": {"family": "tabular", "categorical": ["pickup_area"]},
        },
        "images": {
            "data": {"path": str(data), "format": "images"},
            "model": {"height": PIXELS, "width": PIXELS},
        },
    }
    return kinds[what] | {
        "train": {"epochs": 1, "batch_size": 1024},
        "rewrite": {"candidates": ["identity"]},
        "evaluation": {"min_accuracy": 0.0},
    }


def make(folder: Path, what: str, count: int) -> Path:
    """Rows in `FILES` files, or images in folders by class; a folder that is there is taken as made."""
    data = folder / f"{what}-{count}"
    if not data.exists():
        data.mkdir()
        {"rows": _rows, "images": _images, "bulk": _records}[what](data, count)
    return data


def _rows(data: Path, count: int) -> None:
    for number in range(FILES):
        write_csv(data / f"part-{number}.csv", count // FILES)


def _records(data: Path, count: int) -> None:
    with tempfile.TemporaryDirectory() as apart:
        rows = Path(apart, "rows.csv")
        write_csv(rows, count // FILES)
        write_records(rows, data / "part-0.tfrecord.gz")
    for number in range(1, FILES):
        shutil.copy(data / "part-0.tfrecord.gz", data / f"part-{number}.tfrecord.gz")


def _images(data: Path, count: int) -> None:
    """JPEGs of a few tens of kilobytes: smooth colours with noise."""
    chance = np.random.default_rng(5)
    ramp = np.linspace(0, 200, PIXELS)[:, None, None] * np.ones((1, PIXELS, 3))
    for number in range(count):
        folder = data / f"class-{number % 4}"
        folder.mkdir(exist_ok=True)
        pixels = (ramp + chance.integers(0, 50, ramp.shape)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg", quality=90)


def chain(found: Engine, folder: Path, what: str, count: int, workers: int) -> list[Measured]:
    """Runs the chain once; one measurement a stage."""
    path, workspace, stages = folder / f"{what}.yaml", folder / "workspace", STAGES[what]
    path.write_text(yaml.safe_dump(experiment(make(folder.parent, what, count), what)))
    options = [f"--set=beam.pool={found.pool}", f"--set=beam.parallelism={workers}"]
    command = ["run", str(path), "--workspace", str(workspace), "--to", stages[-1], *options]
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli.main", *command], capture_output=True, text=True, check=False
    )
    time.sleep(0.5)  # the last sample
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    (log,) = workspace.glob("runs/*/events.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    ended = {event["node"]: event for event in events if event["state"] == "complete"}
    measured = []
    for stage in stages:
        at, seconds = ended[stage]["at"], ended[stage]["seconds"]
        used = found.watch.between(at - seconds, at)
        measured.append(Measured(what, stage, workers, count, seconds, *used))
    return measured


def empty(found: Engine, folder: Path, workers: int) -> Measured:
    """A job of one element and one step."""
    began = time.time()
    empty_job(found.settings(workers), folder)
    return found.since(began, "nothing", EMPTY_JOB, workers, 1)


def empty_job(settings: Beam, folder: Path) -> None:
    """Runs a job that does nothing."""
    import apache_beam as beam

    from pipelines.engines import prepare
    from pipelines.runners.beam_pipelines import DEFAULTS, pipeline_maker

    with pipeline_maker([*DEFAULTS, *prepare.prepare(settings, folder, [], None)])() as pipeline:
        _ = pipeline | beam.Create([1]) | beam.Map(str)


def bulk_inference(found: Engine, folder: Path, count: int, workers: int) -> Measured:
    """A small network over the rows, as TFRecords in `FILES` files."""
    from pipelines import bulk

    data = make(folder.parent, "bulk", count)
    model = write_servable(folder / "model" / "1")
    began = time.time()
    bulk.run(bulk.Request(model, data, folder / "answers", beam=found.settings(workers)))
    return found.since(began, "bulk", STAGES["bulk"][0], workers, count)


def per_row(found: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """Of each stage with one worker: CPU seconds of a job, and microseconds of a row or an image.

    By least squares over all sizes. `predicted` is what a line through all but the
    largest size says of that one, and `measured` what it took, in CPU seconds.
    """
    costs = {}
    for what, stages in STAGES.items():
        for stage in stages:
            chosen = [item for item in found if (item.what, item.stage, item.workers) == (what, stage, 1)]
            if len(chosen) < 3:
                continue
            rows = np.asarray([item.rows for item in chosen], float)
            seconds = np.asarray([item.cpu_s for item in chosen])
            slope, job = np.polyfit(rows, seconds, 1)
            predicted = float(np.polyval(np.polyfit(rows[:-1], seconds[:-1], 1), rows[-1]))
            costs[f"{what}: {stage}"] = {
                "job_cpu_s": job,
                "row_cpu_us": slope * 1e6,
                "predicted": predicted,
                "measured": float(seconds[-1]),
            }
    return costs


SIZES = {
    "rows": (50_000, 200_000, 400_000),
    "bulk": (50_000, 200_000, 400_000),
    "images": (1_000, 4_000, 8_000),
}
QUICK = {"rows": (8_000, 16_000, 32_000), "bulk": (8_000, 16_000, 32_000), "images": (200, 400, 800)}


def measure(root: Path, wanted: Sequence[str], *, quick: bool) -> list[Measured]:
    """All measurements of the parts that are wanted."""
    counts = (1, 2) if quick else (1, 2, 4)
    found: list[Measured] = []
    with engine(root) as there:
        if "empty" in wanted:
            found += [_told(empty(there, root, workers)) for workers in counts]
        for what, sizes in (QUICK if quick else SIZES).items():
            cases = [(size, 1) for size in sizes] + [(sizes[-1], count) for count in counts[1:]]
            for size, workers in cases if what in wanted else ():
                folder = root / f"{what}-{size}-by-{workers}"
                folder.mkdir()
                if what == "bulk":
                    found.append(_told(bulk_inference(there, folder, size, workers)))
                else:
                    found += map(_told, chain(there, folder, what, size, workers))
                shutil.rmtree(folder)
    return found


def _told(item: Measured) -> Measured:
    """Should a later case fail, not all is lost."""
    print(item, file=sys.stderr, flush=True)
    return item


def main() -> None:
    """Measures, prints and writes `bench/results/scale.json`."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=[*STAGES, "empty"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-scale-") as root:
        found = measure(Path(root), [given.only] if given.only else [*STAGES, "empty"], quick=given.quick)
    columns = (
        "stage",
        "workers",
        "inputs",
        "wall s",
        "CPU s of workers",
        "inputs/CPU s",
        "MiB of a worker",
        "own",
    )
    print_table("scale", columns, [_row(item) for item in found])
    costs = per_row(found)
    titles = ("one worker", "CPU s a job", "CPU us an input", "largest as predicted", "as measured")
    rows = [
        (name, *(f"{cost[key]:.1f}" for key in ("job_cpu_s", "row_cpu_us", "predicted", "measured")))
        for name, cost in costs.items()
    ]
    print_table("cost of an input", titles, rows)
    RESULTS.mkdir(exist_ok=True)
    content = {
        "machine": machine(),
        "stages": [asdict(item) for item in found],
        "costs": costs,
        "figures": [],
    }
    (RESULTS / "scale.json").write_text(json.dumps(content, indent=1))


def _row(item: Measured) -> tuple[str, ...]:
    rate = "" if item.stage == EMPTY_JOB else f"{item.rows / item.cpu_s:,.0f}"
    numbers = (
        f"{item.wall_s:.1f}",
        f"{item.cpu_s:.1f}",
        rate,
        f"{item.memory_mb:,.0f}",
        f"{item.own_mb:,.0f}",
    )
    return (f"{item.what}: {item.stage}", str(item.workers), f"{item.rows:,}", *numbers)


if __name__ == "__main__":
    main()

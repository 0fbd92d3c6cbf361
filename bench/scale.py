"""What Beam's stages cost spread over workers: rows a second, memory of a worker, and no work at all.

    python -m bench.scale [--quick] [--only rows|images|empty]

Taxi-like rows go through ExampleGen, StatisticsGen, Transform and the Evaluator
on Beam's own runner, with 1, 2 and 4 of our pool's workers; three sizes
with one worker give what a row costs beside what a job costs. CPU seconds are
the workers' own: those of the coordinator, and waiting, are in the wall clock.
Takes half an hour on 2 cores; with --quick, fewer rows and workers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
import yaml
from PIL import Image

from bench.common import RESULTS, machine, print_table
from bench.taxi_like import LABEL, write_csv

STAGES = {
    "rows": ("ExampleGen", "StatisticsGen", "Transform", "Evaluator"),
    "images": ("ExampleGen", "StatisticsGen", "Transform"),
}
"""What is read -> the nodes that are measured."""

PIXELS = 224
FILES = 8
"""So many files are read: a worker takes whole ones."""

EMPTY_JOB = "empty job"


@dataclass(frozen=True)
class Measured:
    """A stage at one size.

    Attributes:
        what: was read: rows or images; or nothing.
        stage: its node, or `EMPTY_JOB`.
        workers: how many.
        rows: of all splits, or images.
        wall_s: from the node's start to its end.
        cpu_s: of all workers together.
        memory_mb: resident memory of the largest worker, shared pages included.
    """

    what: str
    stage: str
    workers: int
    rows: int
    wall_s: float
    cpu_s: float
    memory_mb: float


class Watch:
    """Samples the worker processes of a pool."""

    def __init__(self, pool: int) -> None:
        self._pool = psutil.Process(pool)
        self._ended = threading.Event()
        self._cpu: dict[tuple[int, float], float] = {}
        self._samples: list[tuple[float, float, float]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def between(self, began: float, ended: float) -> tuple[float, float]:
        """CPU seconds that workers took in a span of time (seconds since 1970), and the largest one's MiB."""
        before = max((cpu for at, cpu, _ in self._samples if at <= began), default=0.0)
        inside = [(cpu, memory) for at, cpu, memory in self._samples if began <= at <= ended]
        if not inside:
            return 0.0, 0.0
        return max(cpu for cpu, _ in inside) - before, max(memory for _, memory in inside)

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            largest = 0.0
            with contextlib.suppress(psutil.Error):
                for child in self._pool.children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        used = child.cpu_times()
                        self._cpu[child.pid, child.create_time()] = used.user + used.system
                        largest = max(largest, child.memory_info().rss / 2**20)
            self._samples.append((time.time(), sum(self._cpu.values()), largest))


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


@contextlib.contextmanager
def engine(folder: Path, workers: int) -> Iterator[tuple[dict[str, object], Watch]]:
    """A pool: what stands of it under `beam:`, and a watch over its workers."""
    port = _free_port()
    command = [sys.executable, "-m", "components.beam_pool", "--port", str(port)]
    with _started(command, port, folder / "pool.log") as pid:
        watch = Watch(pid)
        try:
            yield {"pool": f"localhost:{port}", "parallelism": workers}, watch
        finally:
            watch.stop()


def experiment(folder: Path, what: str, count: int) -> Path:
    """An experiment over so many rows in `FILES` files, or over so many images in folders by class."""
    data = folder / "data"
    data.mkdir(parents=True)
    settings = {"rows": _rows, "images": _images}[what](data, count)
    settings |= {
        "train": {"epochs": 1},
        "rewrite": {"candidates": ["identity"]},
        "evaluation": {"min_accuracy": 0.0},
    }
    path = folder / f"{what}.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def _rows(data: Path, count: int) -> dict[str, object]:
    for number in range(FILES):
        write_csv(data / f"part-{number}.csv", count // FILES)
    read = {"path": str(data), "format": "csv", "label": LABEL}
    return {"data": read, "model": {"family": "tabular", "categorical": ["pickup_area"]}}


def _images(data: Path, count: int) -> dict[str, object]:
    """JPEGs of a few tens of kilobytes: smooth colours with noise."""
    chance = np.random.default_rng(5)
    ramp = np.linspace(0, 200, PIXELS)[:, None, None] * np.ones((1, PIXELS, 3))
    for number in range(count):
        folder = data / f"class-{number % 4}"
        folder.mkdir(exist_ok=True)
        pixels = (ramp + chance.integers(0, 50, ramp.shape)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.jpg", quality=90)
    return {"data": {"path": str(data), "format": "images"}, "model": {"height": PIXELS, "width": PIXELS}}


def chain(folder: Path, what: str, count: int, workers: int) -> list[Measured]:
    """Runs the chain once; one measurement a stage."""
    path, stages = experiment(folder, what, count), STAGES[what]
    workspace = folder / "workspace"
    with engine(folder, workers) as (beam, watch):
        options = [f"--set=beam.{key}={value}" for key, value in beam.items()]
        command = ["run", str(path), "--workspace", str(workspace), "--to", stages[-1], *options]
        done = subprocess.run(
            [sys.executable, "-m", "pipelines.cli.main", *command],
            capture_output=True,
            text=True,
            check=False,
        )
        time.sleep(0.5)  # the last sample
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
    (log,) = workspace.glob("runs/*/events.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    ended = {event["node"]: event for event in events if event["state"] == "complete"}
    found = []
    for stage in stages:
        at, seconds = ended[stage]["at"], ended[stage]["seconds"]
        cpu_s, memory_mb = watch.between(at - seconds, at)
        found.append(Measured(what, stage, workers, count, seconds, cpu_s, memory_mb))
    return found


def empty(folder: Path, workers: int) -> Measured:
    """A job of one element and one step; the second, since the first warms the pool."""
    from pipelines.beam_stage import Beam
    from pipelines.engines import prepare
    from pipelines.runners.beam_pipelines import DEFAULTS, pipeline_maker

    with engine(folder, workers) as (beam, watch):
        make = pipeline_maker([*DEFAULTS, *prepare.prepare(Beam.model_validate(beam), folder, [], None)])
        for _ in range(2):
            began = time.time()
            with make() as pipeline:
                _one_step(pipeline)
            ended = time.time()
        time.sleep(0.5)
        cpu_s, memory_mb = watch.between(began, ended)
    return Measured("nothing", EMPTY_JOB, workers, 1, ended - began, cpu_s, memory_mb)


def _one_step(pipeline: object) -> None:
    import apache_beam as beam

    _ = pipeline | beam.Create([1]) | beam.Map(str)


def per_row(found: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """Of each stage with one worker: CPU seconds of a job, and microseconds of a row or an image.

    By least squares; `off` is by how much the line misses a measurement at most, as a share of the largest.
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
            off = abs(job + slope * rows - seconds).max() / seconds.max()
            costs[f"{what}: {stage}"] = {"job_cpu_s": job, "row_cpu_us": slope * 1e6, "off": off}
    return costs


SIZES = {"rows": (40_000, 80_000, 160_000), "images": (1_000, 2_000, 4_000)}
QUICK = {"rows": (8_000, 16_000, 32_000), "images": (200, 400, 800)}


def measure(root: Path, wanted: Sequence[str], *, quick: bool) -> list[Measured]:
    """All measurements of the parts that are wanted."""
    counts = (1, 2) if quick else (1, 2, 4)
    found: list[Measured] = []
    for what, sizes in (QUICK if quick else SIZES).items():
        cases = [(size, 1) for size in sizes] + [(sizes[-1], count) for count in counts[1:]]
        for size, workers in cases if what in wanted else ():
            found += chain(root / f"{what}-{size}-{workers}", what, size, workers)
    for workers in counts if "empty" in wanted else ():
        folder = root / f"empty-{workers}"
        folder.mkdir()
        found.append(empty(folder, workers))
    return found


def main() -> None:
    """Measures, prints and writes `bench/results/scale.json`."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=[*STAGES, "empty"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-scale-") as root:
        found = measure(Path(root), [given.only] if given.only else [*STAGES, "empty"], quick=given.quick)
    columns = ("stage", "workers", "inputs", "wall s", "CPU s of workers", "inputs/s", "MiB of a worker")
    print_table("scale", columns, [_row(item) for item in found])
    costs = per_row(found)
    columns = ("one worker", "CPU s a job", "CPU us an input", "off at most")
    rows = [
        (name, f"{cost['job_cpu_s']:.1f}", f"{cost['row_cpu_us']:.0f}", f"{cost['off']:.0%}")
        for name, cost in costs.items()
    ]
    print_table("cost of an input", columns, rows)
    RESULTS.mkdir(exist_ok=True)
    content = {
        "machine": machine(),
        "stages": [asdict(item) for item in found],
        "costs": costs,
        "figures": [],
    }
    (RESULTS / "scale.json").write_text(json.dumps(content, indent=1))


def _row(item: Measured) -> tuple[str, ...]:
    rate = "" if item.stage == EMPTY_JOB else f"{item.rows / item.wall_s:,.0f}"
    numbers = (f"{item.wall_s:.1f}", f"{item.cpu_s:.1f}", rate, f"{item.memory_mb:,.0f}")
    return (f"{item.what}: {item.stage}", str(item.workers), f"{item.rows:,}", *numbers)


if __name__ == "__main__":
    main()

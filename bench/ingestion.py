"""Rows per second of reading data, and of the chain's data part, beside TFX's stock components.

    python -m bench.ingestion [--quick] [--rows N --rounds N --format csv] [--growth]

Reading: our ExampleGen beside CsvExampleGen and ImportExampleGen; CPU seconds,
without imports. The data part: `headrace run --to Transform` (validation and
gate included) beside the stock ExampleGen, StatisticsGen, SchemaGen and
Transform under LocalDagRunner; seconds by the clock and of CPU, imports
included. Each measurement is a process of its own, on taxi-like rows made from
a seed.
`--growth` measures ours alone at 500,000 and 5,000,000 rows, once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from bench import stock_data_part, taxi_like
from bench.common import Figure, interleaved, print_table, report

SIZES = (2_000, 50_000, 500_000)
GROWTH_SIZES = (500_000, 5_000_000)
_FEW = 50_000

Values = dict[str, list[dict[str, float]]]


def read_ours(source: Path, target: Path) -> None:
    """Our ExampleGen's work on one file."""
    import apache_beam as beam

    from components.example_gen import executor, ingest
    from components.example_gen.request import FeatureRule, Request, Source, SplitPlan

    request = Request(
        sources=(Source(str(source)),),
        format="csv" if source.suffix == ".csv" else "tfrecord",
        split=SplitPlan("hash", taxi_like.SHARES),
        features=(FeatureRule(taxi_like.LABEL, "any"),),
        label=taxi_like.LABEL,
    )
    folders = [str(target / name) for name in ("examples", "report", "quarantine")]
    for folder in folders:
        Path(folder).mkdir(parents=True)
    plan = executor._plan(request, request.sources, *folders)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        ingest.build(pipeline, plan, request.sources)
    executor.check_bad(executor.read_reports(folders[1]), request)


def chain_ours(source: Path, target: Path) -> None:
    """`headrace run --to Transform` on one file."""
    import yaml

    from pipelines.cli.main import cli

    experiment = {
        "name": "bench",
        "data": {"path": str(source), "label": taxi_like.LABEL},
        "model": stock_data_part.MODEL,
    }
    target.mkdir(parents=True)
    path = target / "bench.yaml"
    path.write_text(yaml.safe_dump(experiment))
    arguments = ["run", str(path), "--workspace", str(target / "w"), "--to", "Transform"]
    if cli.main(args=arguments, prog_name="headrace", standalone_mode=False):
        raise RuntimeError("headrace run failed; what it said stands above")


WORK: Mapping[str, Callable[[Path, Path], object]] = {
    "read ours": read_ours,
    "read stock": stock_data_part.read,
    "chain ours": chain_ours,
    "chain stock": stock_data_part.chain,
}


def child(name: str, source: Path) -> None:
    """Runs one measurement; of reading it prints CPU seconds."""
    spent = 0.0
    with tempfile.TemporaryDirectory() as target:
        if name.startswith("read"):
            from components import beam_worker

            if name == "read ours":
                beam_worker.prepare()
            else:
                import tfx.components  # noqa: F401
            began = time.process_time()
            WORK[name](source, Path(target) / "out")
            spent = time.process_time() - began
        else:
            WORK[name](source, Path(target) / "out")
    print(json.dumps({"cpu_s": spent}))


def measure(name: str, source: Path) -> dict[str, float]:
    """One measurement in a process of its own: seconds, CPU seconds, megabytes at the peak."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.ingestion", "--child", name, str(source)],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        # Not Popen.wait: the resources of this one child are wanted, and its own children's with them.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{name} failed: {said.read()[-2000:].decode()}")
    found = {
        "s": time.perf_counter() - began,
        "cpu_s": _cpu(lines[-1], used),
        "peak_mb": used.ru_maxrss / 1024,
    }
    # At once: a later one of the same round may take half an hour, and fail.
    print(name, ", ".join(f"{key} {value:,.1f}" for key, value in found.items()), flush=True)
    return found


def _cpu(line: str, used: resource.struct_rusage) -> float:
    return float(json.loads(line)["cpu_s"]) or used.ru_utime + used.ru_stime


def main() -> None:
    """Measures at several sizes; the figures are those of the largest."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="2,000 and 50,000 rows, one round.")
    parser.add_argument("--rows", type=int, help="One size alone.")
    parser.add_argument("--rounds", type=int, default=3, help="Of sizes over 50,000 rows; 3 if not said.")
    parser.add_argument("--format", choices=("csv", "tfrecord"), help="One format alone.")
    parser.add_argument("--growth", action="store_true", help="Ours at 500,000 and 5,000,000 rows, once.")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]))
    elif options.growth:
        _growth()
    else:
        sizes = (options.rows,) if options.rows else SIZES[:2] if options.quick else SIZES
        _compare(sizes, options.rounds, [options.format] if options.format else ["csv", "tfrecord"])


def _compare(sizes: tuple[int, ...], rounds: int, formats: Sequence[str]) -> None:
    values: dict[str, Values] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            files = _files(Path(folder), size)
            for kind, source in ((kind, files[kind]) for kind in formats):
                names = {name: partial(measure, name, source) for name in WORK}
                values[kind] = interleaved(rounds if size > _FEW else 1, names)
                _print(f"{kind}, {size:,} rows", size, values[kind])
    report("ingestion", [figure for kind in formats for figure in _FIGURES[kind](sizes[-1], values[kind])])


def _files(folder: Path, size: int) -> dict[str, Path]:
    """The same rows as CSV and as TFRecord, each in a folder of its own, which stock components read."""
    csv, records = folder / "csv" / "rows.csv", folder / "tfrecord" / "rows.tfrecord.gz"
    csv.parent.mkdir()
    records.parent.mkdir()
    taxi_like.write_csv(csv, size)
    taxi_like.write_records(csv, records)
    return {"csv": csv, "tfrecord": records}


def _print(title: str, size: int, values: Values) -> None:
    rows = [
        (
            name,
            f"{min(item['s'] for item in items):.1f}",
            f"{min(item['cpu_s'] for item in items):.1f}",
            f"{size / min(item['s' if name.startswith('chain') else 'cpu_s'] for item in items):,.0f}",
            f"{max(item['peak_mb'] for item in items):,.0f}",
        )
        for name, items in values.items()
    ]
    columns = ("part", "s", "CPU s", "rows/s (chain: clock, read: CPU)", "peak MB of a process")
    print_table(title, columns, rows)


def _rates(size: int, values: list[dict[str, float]], unit: str) -> list[float]:
    return [size / item[unit] for item in values]


def _ratio(name: str, part: str, size: int, values: Values, *, unit: str = "cpu_s", goal: str = "") -> Figure:
    """Rows per second of `part`, ours beside stock."""
    ours, stock = (_rates(size, values[f"{part} {whose}"], unit) for whose in ("ours", "stock"))
    return Figure.of(name, ours, stock, "rows/CPU s" if unit == "cpu_s" else "rows/s", goal)


def _csv_figures(size: int, values: Values) -> list[Figure]:
    """Of the largest size, under the names of 500,000 rows."""
    return [
        _ratio("csv_vs_stock_500k", "read", size, values, goal=">= 4"),
        _ratio("data_part_vs_stock_500k", "chain", size, values, unit="s", goal=">= 2"),
        _ratio("data_part_vs_stock_500k_cpu", "chain", size, values),
    ]


def _record_figures(size: int, values: Values) -> list[Figure]:
    return [
        _ratio("tfrecord_vs_stock_500k", "read", size, values),
        _ratio("tfrecord_data_part_vs_stock_500k", "chain", size, values, unit="s"),
        _ratio("tfrecord_data_part_vs_stock_500k_cpu", "chain", size, values),
    ]


_FIGURES = {"csv": _csv_figures, "tfrecord": _record_figures}


def _growth() -> None:
    """Time of ten times the rows, as a share of ten times the time."""
    found: dict[int, Values] = {}
    for size in GROWTH_SIZES:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "rows.csv"
            taxi_like.write_csv(source, size)
            ours = {name: partial(measure, name, source) for name in WORK if name.endswith("ours")}
            found[size] = interleaved(1, ours)
            _print(f"CSV, {size:,} rows", size, found[size])
    small, large = GROWTH_SIZES
    figures = [
        Figure.of(
            f"growth_{name.split()[0]}_{large // small}x",
            [found[large][name][0]["cpu_s"] / large],
            [found[small][name][0]["cpu_s"] / small],
            "CPU s/row",
            "<= 1.15",
        )
        for name in found[large]
    ]
    report("ingestion_growth", figures)


if __name__ == "__main__":
    main()

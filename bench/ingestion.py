"""CSV to Examples: our ExampleGen's Beam part beside TFX's CsvExampleGen, rows per second.

    python -m bench.ingestion [--quick]

Each measurement is a process of its own, on taxi-like rows made from a seed;
times are CPU seconds of reading, splitting and writing, without imports.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.common import Figure, interleaved, print_table, report

SHARES = (("train", 6), ("validation", 2), ("test", 2))
_COMPANIES = ("Taxi Affiliation Services", "Dispatch Taxi Affiliation", "Blue Ribbon, Inc.", "")


def write_rows(path: Path, rows: int) -> None:
    """Writes a CSV with numbers, texts, a quoted comma and missing cells."""
    chance = random.Random(5)
    with open(path, "w") as file:
        file.write("fare,trip_miles,trip_start_hour,company,payment_type,pickup_area,tips,label\n")
        for _ in range(rows):
            company = chance.choice(_COMPANIES)
            quoted = f'"{company}"' if "," in company else company
            area = "" if chance.random() < 0.2 else str(chance.randrange(77))
            file.write(
                f"{chance.uniform(3, 60):.2f},{chance.expovariate(0.3):.1f},{chance.randrange(24)},{quoted},"
                f"{chance.choice(('Cash', 'Credit Card'))},{area},"
                f"{chance.uniform(0, 9):.2f},{chance.randrange(2)}\n"
            )


def ours(source: Path, target: Path) -> None:
    """Our ExampleGen's work on one CSV file."""
    import apache_beam as beam

    from components.example_gen import executor, ingest
    from components.example_gen.request import FeatureRule, Request, Source, SplitPlan

    request = Request(
        sources=(Source(str(source)),),
        format="csv",
        split=SplitPlan("hash", SHARES),
        features=(FeatureRule("label", "any"),),
        label="label",
    )
    for name in ("examples", "report", "quarantine"):
        (target / name).mkdir(parents=True)
    folders = [str(target / name) for name in ("examples", "report", "quarantine")]
    plan = executor._plan(request, request.sources, *folders)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        ingest.build(pipeline, plan, request.sources)
    executor.check_bad(executor.read_reports(folders[1]), request)


def stock(source: Path, target: Path) -> None:
    """TFX's CsvExampleGen on the same file, with the same splits."""
    from tfx.components.example_gen.csv_example_gen.executor import Executor
    from tfx.dsl.components.base import base_beam_executor
    from tfx.proto import example_gen_pb2
    from tfx.types import standard_artifacts
    from tfx.utils import proto_utils

    examples = standard_artifacts.Examples()
    examples.uri = str(target)
    splits = [example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=share) for name, share in SHARES]
    properties = {
        "input_base": str(source.parent),
        "input_config": proto_utils.proto_to_json(
            example_gen_pb2.Input(splits=[example_gen_pb2.Input.Split(name="all", pattern=source.name)])
        ),
        "output_config": proto_utils.proto_to_json(
            example_gen_pb2.Output(split_config=example_gen_pb2.SplitConfig(splits=splits))
        ),
        "output_data_format": example_gen_pb2.PayloadFormat.FORMAT_TF_EXAMPLE,
    }
    import apache_beam as beam

    context = base_beam_executor.BaseBeamExecutor.Context(
        make_beam_pipeline_fn=lambda: beam.Pipeline(runner="FnApiRunner"), tmp_dir=str(target)
    )
    Executor(context).Do({}, {"examples": [examples]}, properties)


WORK = {"ours": ours, "stock": stock}


def child(name: str, source: Path) -> None:
    """Runs one measurement and prints CPU seconds and peak memory as JSON."""
    import apache_beam
    import tfx.components

    assert apache_beam and tfx.components
    with tempfile.TemporaryDirectory() as target:
        began = time.process_time()
        WORK[name](source, Path(target) / "out")
        spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu_s": spent, "peak_mb": peak}))


def measure(name: str, source: Path) -> dict[str, float]:
    """One measurement in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name, "--child", name, str(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measures at several sizes; the figure is that of 500,000 rows (50,000 with --quick)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="50,000 rows at most, one round.")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]))
        return
    sizes = (2_000, 50_000) if options.quick else (2_000, 50_000, 500_000)
    rows_per_s: dict[str, list[float]] = {}
    table = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "rows.csv"
            write_rows(source, size)
            measures = {name: partial(measure, name, source) for name in WORK}
            rounds = interleaved(1 if options.quick else 3, measures)
        rows_per_s = {name: [size / item["cpu_s"] for item in values] for name, values in rounds.items()}
        for name, values in rounds.items():
            rate, peak = max(rows_per_s[name]), max(item["peak_mb"] for item in values)
            table.append((f"{name}, {size:,} rows", f"{rate:,.0f}", f"{peak:,.0f}"))
    print_table("Rows per CPU second and peak memory (MB)", ("run", "rows/s", "peak"), table)
    report(
        "ingestion",
        [Figure.of("csv_vs_stock_500k", rows_per_s["ours"], rows_per_s["stock"], "rows/s", ">= 4")],
    )


if __name__ == "__main__":
    main()

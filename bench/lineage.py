"""How long questions to the record take on many runs: ours beside ML Metadata's own lineage query.

python -m bench.lineage                 # 10,000 runs, 100,000 executions; about five minutes to make
python -m bench.lineage --quick         # 500 runs
python -m bench.lineage --store big.db  # made once, used again
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from bench.common import Figure, interleaved, print_table, report
from bench.recorded_runs import UNCHANGING, Writer
from pipelines.lineage import query
from pipelines.lineage.database import Database
from pipelines.lineage.source import Push
from pipelines.lineage.sqlite import SqliteSource

RUNS, QUICK_RUNS = 10_000, 500
QUESTIONS = 200
ROUNDS = 5
LIMIT_MS = 100.0
BUSIEST = "lineage FILE --down, of a fifth of all runs"
"""Shown beside the figure and not in it: its answer alone is thousands of executions."""

_MAX_HOPS = 40


def main() -> None:
    """Makes the store where there is none, asks, prints and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_RUNS} runs")
    parser.add_argument("--store", type=Path, help="where the made store is kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = given.store or Path(scratch, "metadata.db")
        if not path.exists():
            _make(path, QUICK_RUNS if given.quick else RUNS)
        _measure(path)


def _make(path: Path, runs: int) -> None:
    began = time.monotonic()
    Writer(Database(path)).write(runs)
    print(f"{runs:,} runs, {runs * 10:,} executions made in {time.monotonic() - began:.0f} s")


def _measure(path: Path) -> None:
    with SqliteSource(path) as source:
        pushes = source.pushes()
        runs = source.run_ids(limit=1_000_000)
        files = [artifact.uri for artifact in source.artifacts(source.input_files("/data")).values()]
    chosen = random.Random(7)
    picked = chosen.choices(pushes, k=QUESTIONS)
    asked: dict[str, list[Callable[[], object]]] = {
        "lineage VERSION --up": [_lineage(path, push.name, "up") for push in picked],
        "lineage RUN --up": [_lineage(path, run, "up") for run in chosen.choices(runs, k=QUESTIONS)],
        "lineage FILE --down": [_lineage(path, file, "down") for file in chosen.choices(files, k=QUESTIONS)],
        "lineage VERSION --down": [_lineage(path, push.name, "down") for push in picked],
        BUSIEST: [_lineage(path, f"/data/{UNCHANGING}/1/part-0.csv", "down")] * 3,
        "trace": [_trace(path, push) for push in picked],
    }
    times = {name: [_milliseconds(question) for question in questions] for name, questions in asked.items()}
    rows = [(name, *(f"{figure:.1f}" for figure in _spread(values))) for name, values in times.items()]
    print_table(
        f"{len(runs):,} runs, {QUESTIONS} questions of most kinds", ("ms", "median", "p95", "most"), rows
    )
    lineages = [value for name, values in times.items() if name not in (BUSIEST, "trace") for value in values]
    report(
        "lineage",
        [
            _figure("lineage_query_ms", lineages, *_against_mlmd(path, picked)),
            _figure("trace_query_ms", times["trace"], *_trace_against_mlmd(path, picked)),
        ],
    )


def _lineage(path: Path, name: str, direction: query.Direction) -> Callable[[], object]:
    def ask() -> object:
        with SqliteSource(path) as source:
            return query.follow(source, query.resolve(source, name), direction)

    return ask


def _trace(path: Path, push: Push) -> Callable[[], object]:
    def ask() -> object:
        with SqliteSource(path) as source:
            history = query.services(source.pushes_around(push.model, push.at), source.switches(push.model))
            serving, _ = query.serving_at(history, push.at)
            return serving and query.run_of(source, query.find_push(source, push.model, str(serving.version)))

    return ask


def _milliseconds(question: Callable[[], object]) -> float:
    began = time.perf_counter()
    question()
    return 1000 * (time.perf_counter() - began)


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    return median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1]


def _figure(name: str, values: Sequence[float], ours: Sequence[float], other: Sequence[float]) -> Figure:
    """Ours is the 95th percentile over all questions; the ratio is of the same question to both."""
    ratio = median(mine / theirs for mine, theirs in zip(ours, other, strict=True))
    p95 = _spread(values)[1]
    return Figure(name, p95, median(other), "ms", ratio, f"ours <= {LIMIT_MS:g}", p95 <= LIMIT_MS)


def _connect(path: Path) -> metadata_store.MetadataStore:
    config = pb.ConnectionConfig()
    config.sqlite.filename_uri = str(path)
    config.sqlite.connection_mode = pb.SqliteMetadataSourceConfig.READONLY
    return metadata_store.MetadataStore(config)


def _against_mlmd(path: Path, picked: Sequence[Push]) -> tuple[Sequence[float], Sequence[float]]:
    """One version's origins, by ours and by MLMD's `get_lineage_subgraph`, in turns."""
    store, push = _connect(path), picked[0]
    options = pb.LineageSubgraphQueryOptions(
        starting_artifacts=pb.LineageSubgraphQueryOptions.StartingNodes(filter_query=f"id = {push.artifact}"),
        max_num_hops=_MAX_HOPS,
        direction=pb.LineageSubgraphQueryOptions.Direction.UPSTREAM,
    )
    values = interleaved(
        ROUNDS,
        {
            "ours": lambda: _milliseconds(_lineage(path, push.name, "up")),
            "other": lambda: _milliseconds(lambda: store.get_lineage_subgraph(options)),
        },
    )
    return values["ours"], values["other"]


def _trace_against_mlmd(path: Path, picked: Sequence[Push]) -> tuple[Sequence[float], Sequence[float]]:
    """The version that was serving, by ours and by reading all PushedModels through MLMD's API."""
    store, push = _connect(path), picked[0]

    def other() -> object:
        pushed = store.get_artifacts_by_type("PushedModel")
        mine = [
            artifact
            for artifact in pushed
            if f"/{push.model}/" in artifact.custom_properties["pushed_destination"].string_value
            and artifact.create_time_since_epoch <= push.at * 1000
        ]
        return max(mine, key=lambda artifact: int(artifact.custom_properties["pushed_version"].string_value))

    values = interleaved(
        ROUNDS,
        {"ours": lambda: _milliseconds(_trace(path, push)), "other": lambda: _milliseconds(other)},
    )
    return values["ours"], values["other"]


if __name__ == "__main__":
    main()

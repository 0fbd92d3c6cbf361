"""bench.lineage on a small store: same store from the same seed, and the figures it promises."""

from __future__ import annotations

import json

from bench import common, lineage
from bench.recorded_runs import CHAIN, Writer
from pipelines.lineage.database import Database
from pipelines.lineage.sqlite import SqliteSource


def test_the_same_seed_makes_the_same_runs(tmp_path) -> None:
    runs = [Writer(Database(tmp_path / name), seed=5).write(12) for name in ("a.db", "b.db")]
    assert runs[0] == runs[1]
    pushes = []
    for name in ("a.db", "b.db"):
        with SqliteSource(tmp_path / name) as source:
            pushes.append([(push.artifact, push.name) for push in source.pushes()])
            assert [len(source.run_executions(run)) for run in runs[0]] == [len(CHAIN)] * 12
    assert pushes[0] == pushes[1]


def test_it_prints_and_writes_its_figures(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(lineage, "QUICK_RUNS", 30)
    monkeypatch.setattr(lineage, "QUESTIONS", 4)
    monkeypatch.setattr(lineage, "ROUNDS", 2)
    monkeypatch.setattr("sys.argv", ["bench.lineage", "--quick"])
    lineage.main()
    assert "lineage FILE --down" in capsys.readouterr().out
    figures = json.loads((tmp_path / "results/lineage.json").read_text())["figures"]
    assert [figure["name"] for figure in figures] == ["lineage_query_ms", "trace_query_ms"]
    assert all(figure["ours"] > 0 and figure["other"] > 0 and figure["unit"] == "ms" for figure in figures)

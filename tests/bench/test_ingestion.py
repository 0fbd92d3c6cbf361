"""What the measurement of reading data says, from measurements that are given."""

from __future__ import annotations

import csv
from pathlib import Path

from bench import ingestion, taxi_like


def test_rows_are_the_same_in_every_run(tmp_path: Path) -> None:
    texts = []
    for name in ("a.csv", "b.csv"):
        taxi_like.write_csv(tmp_path / name, 50)
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1]
    rows = list(csv.DictReader(texts[0].splitlines()))
    assert len(rows) == 50
    assert {row["company"] for row in rows} >= {"", "Blue Ribbon, Inc."}
    assert {row[taxi_like.LABEL] for row in rows} == {"0", "1"}


def test_reading_is_compared_by_cpu_and_the_data_part_by_the_clock() -> None:
    seconds = {
        "read ours": (9.0, 2.0),
        "read stock": (9.0, 10.0),
        "chain ours": (5.0, 9.0),
        "chain stock": (20.0, 9.0),
    }
    one = {name: [{"s": s, "cpu_s": cpu, "peak_mb": 1.0}] for name, (s, cpu) in seconds.items()}
    found = [figure for kind in ("csv", "tfrecord") for figure in ingestion._FIGURES[kind](100, one)]
    figures = {item.name: item for item in found}
    assert (figures["csv_vs_stock_500k"].ours, figures["csv_vs_stock_500k"].ratio) == (50.0, 5.0)
    assert figures["data_part_vs_stock_500k"].ratio == 4.0
    assert figures["data_part_vs_stock_500k_cpu"].ratio == 1.0
    assert figures["tfrecord_vs_stock_500k"].ratio == 5.0
    assert all(figure.reached for figure in figures.values())

"""Listings as tables, JSON and CSV: the keys that scripts rely on."""

from __future__ import annotations

import csv
import importlib
import io
import json
import re

import pytest

from pipelines.cli import listing
from pipelines.cli.listing import Column
from tests.conftest import ROOT

COLUMNS = (
    Column("name"),
    Column("share", right=True, show=lambda value: f"{value:.2f}"),
    Column("parts", show=", ".join),
)
ROWS = [
    {"name": "a [bold]b[/bold]", "share": 0.12345, "parts": ["x", "y"]},
    {"name": "c,d", "share": None, "parts": []},
]


def test_json_has_bare_values(capsys) -> None:
    listing.show(ROWS, COLUMNS, "json")
    assert json.loads(capsys.readouterr().out) == ROWS


def test_csv_has_a_heading_and_json_for_what_is_no_text(capsys) -> None:
    listing.show(ROWS, COLUMNS, "csv")
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows == [
        ["name", "share", "parts"],
        ["a [bold]b[/bold]", "0.12345", '["x", "y"]'],
        ["c,d", "", "[]"],
    ]


def test_tables_round_and_take_no_markup_from_values(capsys) -> None:
    listing.show(ROWS, COLUMNS, "table")
    out = capsys.readouterr().out
    assert "a [bold]b[/bold]" in out
    assert re.search(r"0\.12 +x, y", out)


def test_nothing_to_list(capsys) -> None:
    for output, expected in (("table", "None yet.\n"), ("json", "[]\n"), ("csv", "name,share,parts\n")):
        listing.show([], COLUMNS, output, empty="None yet.")
        assert capsys.readouterr().out == expected


LISTS = {
    "data stats": ("data", "COLUMNS"),
    "data check": ("data", "ANOMALIES"),
    "retrain status": ("retrain", "STATUS"),
    "retrain history": ("retrain", "COLUMNS"),
    "retrain explain": ("retrain", "EXPLAINED"),
    "models list": ("models", "COLUMNS"),
    "explain-cache": ("explain_cache", "COLUMNS"),
    "schedule kfp": ("schedule", "COLUMNS"),
}
"""Command -> module and name of its columns, where it is not the module of that name and `COLUMNS`."""


@pytest.mark.parametrize(
    "line",
    [
        line
        for line in (ROOT / "docs/reference/output.md").read_text().splitlines()
        if line.startswith("| `headrace")
    ],
)
def test_keys_are_those_that_are_documented(line: str) -> None:
    command, keys = line.strip("|").split("|")
    found = re.match(r" `headrace ((?:[a-z-]+ ?)+)", command)
    assert found
    words = found.group(1).strip()
    module, name = LISTS.get(words.split(" --")[0], (words, "COLUMNS"))
    columns = getattr(importlib.import_module(f"pipelines.cli.{module}"), name)
    assert ", ".join(column.key for column in columns) == keys.strip()

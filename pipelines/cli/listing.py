"""What commands list, as a table to read, or as JSON or CSV to process.

    @output_option
    def command(output: str) -> None:
        show(rows, COLUMNS, output, empty="Nothing yet.")

Keys are a promise: they are documented in docs/reference/output.md, and a test holds
them. JSON and CSV have bare values; tables round, shorten and colour them.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from rich import box
from rich.table import Table
from rich.text import Text

from pipelines.cli.screen import console

OUTPUTS = ("table", "json", "csv")

Row = Mapping[str, Any]


def _plain(value: Any) -> str:
    return "" if value is None else str(value)


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        key: in JSON and CSV.
        title: in tables; the key with spaces when empty.
        right: whether tables align it to the right.
        show: the value as tables show it.
        style: of a value in tables, as rich names styles; empty for none.
        shows_none: whether None is a value that `show` and `style` take; else its cell is empty.
    """

    key: str
    title: str = ""
    right: bool = False
    show: Callable[[Any], str] = _plain
    style: Callable[[Any], str] = lambda value: ""
    shows_none: bool = False

    @property
    def heading(self) -> str:
        return self.title or self.key.replace("_", " ")


def output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--output table|json|csv."""
    return click.option(
        "--output",
        type=click.Choice(OUTPUTS),
        default="table",
        envvar="HEADRACE_OUTPUT",
        show_default="table, or HEADRACE_OUTPUT",
        help="table to read; json or csv to process.",
    )(function)


def show(rows: Sequence[Row], columns: Sequence[Column], output: str, *, empty: str = "") -> None:
    """Prints rows.

    Args:
        rows: key -> value; every row has every column's key.
        columns: in order.
        output: one of `OUTPUTS`.
        empty: what a reader is told instead of an empty table.
    """
    if output == "json":
        print_json([{column.key: row[column.key] for column in columns} for row in rows])
    elif output == "csv":
        print_csv([column.key for column in columns], rows)
    elif not rows and empty:
        click.echo(empty)
    else:
        console().print(table(rows, columns))


def table(rows: Sequence[Row], columns: Sequence[Column]) -> Table:
    """Rows as tables show them."""
    made = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        made.add_column(column.heading, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(_cell(column, row[column.key]) for column in columns))
    return made


def _cell(column: Column, value: Any) -> Text:
    if value is None and not column.shows_none:
        return Text("")
    return Text(column.show(value), column.style(value))


def print_json(value: Any) -> None:
    """Prints a value as indented JSON."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False, default=str))


def print_csv(keys: Sequence[str], rows: Sequence[Row]) -> None:
    """Prints rows as CSV with a heading; what is no number or text stands as JSON."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(keys)
    for row in rows:
        writer.writerow([_csv_cell(row[key]) for key in keys])


def _csv_cell(value: Any) -> Any:
    return json.dumps(value, default=str) if isinstance(value, list | tuple | dict | bool) else value

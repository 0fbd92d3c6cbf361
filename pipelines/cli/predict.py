"""headrace predict: files to a running server, answers to a table or JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.table import Table

from components.example_gen import origins
from components.serving import pairs
from components.serving.client import ModelClient, ServerError
from modules import contract
from pipelines.cli import names
from pipelines.cli.listing import output_option, print_csv, print_json
from pipelines.cli.places import InputPath
from pipelines.cli.screen import console
from pipelines.errors import HeadraceError, InputError, NotFoundError, nearest


@dataclass(frozen=True)
class _Row:
    """One input: where it came from, and what is sent."""

    origin: str
    raw: bytes


@dataclass(frozen=True)
class _Kind:
    """A kind of file: what it is called, the signature that takes it, and its reader."""

    name: str
    signature: str
    read: Callable[[Path, Sequence[str]], list[_Row]]


class ServerFailedError(HeadraceError):
    """A server that does not answer, or fails."""

    exit_code = 1


@click.command("predict")
@click.argument("model", shell_complete=names.models)
@click.argument("files", nargs=-1, required=True, type=InputPath(), metavar="FILE...")
@click.option("--host", default="127.0.0.1", show_default=True, help="The server's address.")
@click.option("--rest-port", default=8501, show_default=True, help="The server's REST port.")
@click.option("--signature", default="", help="Signature to call; by default the one that takes such files.")
@click.option(
    "--column", default="", help="Column of a CSV file that holds the text; not needed for one column."
)
@click.option("--pair-column", default="", help="Column with the second text, where the model takes pairs.")
@output_option
def command(
    model: str,
    files: tuple[Path, ...],
    host: str,
    rest_port: int,
    signature: str,
    column: str,
    pair_column: str,
    output: str,
) -> None:
    """Send FILEs to MODEL on a running server, and print what it says.

    \b
    Examples:
      headrace predict digits scans/*.png
      headrace predict intents questions.csv --column text --output json

    FILEs are images, texts (.csv with a header, .txt with one a line) or serialized
    examples (.tfrecord, also .gz), all of one kind.
    """
    kind = _kind_of(files)
    columns = (column, pair_column)
    rows = [
        replace(row, origin=origins.told(row.origin)) for path in files for row in _read(kind, path, columns)
    ]
    client = ModelClient(host, rest_port)
    try:
        name, input_name = _signature_for(client.signatures(model), signature or kind.signature, kind)
        answers = client.predict(model, name, input_name, [row.raw for row in rows])
    except ServerError as error:
        raise _as_command_error(error) from error
    listed = [{"input": row.origin, **answer} for row, answer in zip(rows, answers, strict=True)]
    if output == "json":
        print_json(listed)
    elif output == "csv":
        print_csv(list(listed[0]), listed)
    else:
        console().print(_table(rows, answers))


def _as_command_error(error: ServerError) -> HeadraceError:
    # 4xx is the user's mistake (a wrong name, a wrong file), the rest is the server's.
    kind = InputError if 400 <= error.status < 500 else ServerFailedError
    return kind(error.headline, place=error.place, remedy=error.remedy)


def _kind_of(files: Sequence[Path]) -> _Kind:
    kinds = {path: _KINDS.get(_suffix(path)) for path in files}
    for path, kind in kinds.items():
        if kind is None:
            raise InputError(
                f"Files of this kind cannot be sent: {_suffix(path) or 'no suffix'}",
                place=str(path),
                remedy=f"Known: {', '.join(sorted(_KINDS))}.",
            )
    first = next(iter(kinds.values()))
    other = next((path for path, kind in kinds.items() if kind != first), None)
    if first is None or other is not None:
        raise InputError(
            "All files must be of one kind", place=str(other), remedy="Send each kind with a call of its own."
        )
    return first


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


def _read(kind: _Kind, path: Path, columns: Sequence[str]) -> list[_Row]:
    try:
        rows = kind.read(path, columns)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"A file cannot be read: {error}", place=str(path), remedy="Name a readable file."
        ) from error
    if not rows:
        raise InputError("A file holds nothing to send", place=str(path), remedy="Leave it out.")
    return rows


def _read_image(path: Path, _: Sequence[str]) -> list[_Row]:
    return [_Row(str(path), path.read_bytes())]


def _read_lines(path: Path, _: Sequence[str]) -> list[_Row]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_Row(line, line.encode()) for line in lines if line.strip()]


def _read_csv(path: Path, columns: Sequence[str]) -> list[_Row]:
    """One text a row, or two, joined, where a second column is named."""
    column, pair_column = columns
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        names = reader.fieldnames or []
        name = column or (names[0] if len(names) == 1 else "text")
        _check_column(path, name, names, "--column")
        if not pair_column:
            return [_Row(record[name] or "", (record[name] or "").encode()) for record in reader]
        _check_column(path, pair_column, names, "--pair-column")
        found = [pairs.joined(record[name] or "", record[pair_column] or "") for record in reader]
        return [_Row(text, text.encode()) for text in found]


def _check_column(path: Path, name: str, names: Sequence[str], option: str) -> None:
    if name not in names:
        raise InputError(
            f"There is no column {name!r}",
            place=str(path),
            remedy=f"Name one with {option}. {nearest(name, names)}",
        )


def _read_examples(path: Path, _: Sequence[str]) -> list[_Row]:
    import tensorflow as tf

    compression = "GZIP" if path.suffix == ".gz" else ""
    path.open("rb").close()  # TensorFlow's own message for a missing file is a page long
    try:
        records = list(tf.data.TFRecordDataset(str(path), compression).as_numpy_iterator())
    except tf.errors.OpError as error:
        raise InputError(
            f"A TFRecord file cannot be read: {error.message}",
            place=str(path),
            remedy="Compressed files must end in .gz, others must not.",
        ) from error
    return [_Row(f"{path}:{number}", record) for number, record in enumerate(records)]


_IMAGES = _Kind("images", contract.SIGNATURE_IMAGE, _read_image)
_CSV = _Kind("texts", contract.SIGNATURE_TEXT, _read_csv)
_LINES = _Kind("texts", contract.SIGNATURE_TEXT, _read_lines)
_EXAMPLES = _Kind("examples", contract.SIGNATURE_EXAMPLES, _read_examples)
_KINDS = {
    **dict.fromkeys((".jpg", ".jpeg", ".png", ".gif", ".bmp"), _IMAGES),
    ".csv": _CSV,
    ".txt": _LINES,
    ".tfrecord": _EXAMPLES,
    ".tfrecords": _EXAMPLES,
}


def _signature_for(signatures: dict[str, Any], name: str, kind: _Kind) -> tuple[str, str]:
    """Name of the signature, and of its one input, which must take strings."""
    callable_names = [item for item in signatures if not item.startswith("__")]
    if name not in callable_names:
        raise NotFoundError(
            f"The model has no signature {name!r} for {kind.name}",
            remedy=f"Name one with --signature. {nearest(name, callable_names)}",
        )
    inputs = signatures[name]["inputs"]
    if len(inputs) != 1 or next(iter(inputs.values()))["dtype"] != "DT_STRING":
        raise InputError(
            f"The signature {name!r} does not take {kind.name}; its inputs: {', '.join(sorted(inputs))}",
            remedy="Name one with a single string input with --signature.",
        )
    return name, next(iter(inputs))


def _table(rows: Sequence[_Row], answers: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    classified = all({contract.OUTPUT_SCORES, contract.OUTPUT_CLASSES} <= answer.keys() for answer in answers)
    columns = ("class", "score") if classified else tuple(answers[0])
    for column in ("input", *columns):
        table.add_column(column, overflow="fold")
    for row, answer in zip(rows, answers, strict=True):
        cells = _best(answer) if classified else tuple(json.dumps(answer[name]) for name in columns)
        table.add_row(row.origin, *cells)
    return table


def _best(answer: dict[str, Any]) -> tuple[str, str]:
    score, name = max(zip(answer[contract.OUTPUT_SCORES], answer[contract.OUTPUT_CLASSES], strict=True))
    return name, f"{score:.4f}"

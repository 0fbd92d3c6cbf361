"""CSV and TSV by Arrow: quoted commas, multi-line strings, missing cells, a byte order mark.

Cells are read as text, then cast to the types that all files of the data set
agree on: Arrow alone would take the types of a file's first block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from components.errors import DamagedFileError, DataError
from components.example_gen import tables
from components.example_gen.batch import Batch, Fault, up_to_damage
from components.example_gen.request import Request, Source

_BLOCK_BYTES = 4 << 20
_TAIL_BYTES = 256
_COMPRESSED = (".gz", ".bz2", ".lz4", ".zst", ".br")
"""Endings by which Arrow knows that a file is compressed."""


def kinds(source: Source, request: Request) -> dict[str, str]:
    """The kind of each column of one file."""
    batches = up_to_damage(_batches(source.path, request), request)
    return tables.merge(tables.text_kinds(_as_text(raw)[0]) for raw, _ in batches)


def read(source: Source, request: Request, kinds: tables.Kinds) -> Iterator[Batch]:
    """Reads one file; rows with another number of cells than the header, or with bytes that are
    no UTF-8, are faults.

    Rows are numbered from 0, the header and rows of another length not counted among the good.
    """
    first = 0
    for raw, bad in _batches(source.path, request):
        batch, undecodable = _as_text(raw)
        found = tables.to_examples(batch, kinds, request, first)
        records = tuple(item for item in found.records if item[0] - first not in undecodable)
        faults = tuple(fault for fault in found.faults if fault.number - first not in undecodable)
        unread = tuple(Fault(first + row, *what) for row, what in undecodable.items())
        first += batch.num_rows
        yield Batch(records, (*bad, *unread, *faults))


def _as_text(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, tuple[str, bytes]]]:
    """Columns of bytes as columns of text; and row -> (reason, cell) where a cell is no UTF-8.

    Such a cell is missing in the result.
    """
    undecodable: dict[int, tuple[str, bytes]] = {}
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns.append(column.cast(pa.string()))
        except pa.ArrowInvalid:
            cells = [_decoded(cell) for cell in column.to_pylist()]
            for row in (row for row, cell in enumerate(cells) if isinstance(cell, bytes)):
                undecodable.setdefault(
                    row,
                    (f"column {name!r} is no UTF-8 text (data.encoding sets another)", column[row].as_py()),
                )
            columns.append(
                pa.array([None if isinstance(cell, bytes) else cell for cell in cells], pa.string())
            )
    return pa.RecordBatch.from_arrays(columns, batch.schema.names), undecodable


def _decoded(cell: bytes | None) -> str | bytes | None:
    try:
        return cell if cell is None else cell.decode("utf-8")
    except UnicodeDecodeError:
        return cell


def _batches(path: str, request: Request) -> Iterator[tuple[pa.RecordBatch, list[Fault]]]:
    """Batches of columns of bytes, with the rows that could not be read since the last."""
    options = request.options
    bad: list[Fault] = []

    def note(row: csv.InvalidRow) -> str:
        reason = f"a row should have {row.expected_columns} cells; received {row.actual_columns}"
        # The header is row 1 of the file.
        bad.append(Fault((row.number or 2) - 2, reason, (row.text or "").encode()))
        return "skip"

    try:
        reader = csv.open_csv(
            path,
            read_options=csv.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, encoding=options.get("encoding", "utf-8")
            ),
            parse_options=csv.ParseOptions(
                delimiter=options.get("delimiter", ","), newlines_in_values=True, invalid_row_handler=note
            ),
            convert_options=_convert_options(path, request),
        )
        last = None
        for batch in reader:
            yield batch, list(bad)
            bad.clear()
            last = batch if batch.num_rows else last
        if last is not None and _left_open(path, last, options):
            raise DamagedFileError(
                "A CSV file ends inside a quoted cell: a quote was opened and never closed",
                place=f"{path}, its last record",
                remedy="Close the quote; what follows it has been read as one cell.",
            )
        if bad:
            yield (
                pa.RecordBatch.from_arrays(
                    [pa.array([], pa.binary()) for _ in reader.schema], reader.schema.names
                ),
                bad,
            )
    except (pa.ArrowInvalid, UnicodeDecodeError, OSError) as error:
        raise _unreadable(path, error) from error


def _left_open(path: str, last: pa.RecordBatch, options: Mapping[str, str]) -> bool:
    """Whether the last cell holds lines, so was quoted, and no quote closes it: Arrow takes the file's end
    for that, and all records behind a stray quote with it."""
    cell = last.column(last.num_columns - 1)[last.num_rows - 1].as_py() or b""
    plain = '"'.encode(options.get("encoding", "utf-8")) == b'"' and not path.endswith(_COMPRESSED)
    if not plain or not (b"\n" in cell or b"\r" in cell):
        return False
    with open(path, "rb") as file:
        file.seek(max(Path(path).stat().st_size - _TAIL_BYTES, 0))
        return not file.read().rstrip().endswith(b'"')


def _convert_options(path: str, request: Request) -> csv.ConvertOptions:
    return csv.ConvertOptions(
        # As bytes: one cell that is no UTF-8 would fail the whole file as text.
        column_types=dict.fromkeys(header(path, request.options), pa.binary()),
        null_values=["", *request.missing_values],
        strings_can_be_null=True,
    )


def header(path: str, options: Mapping[str, str]) -> list[str]:
    """The column names of a file.

    Raises:
        DataError: it is empty, or two columns have one name.
    """
    try:
        reader = csv.open_csv(
            path,
            read_options=csv.ReadOptions(use_threads=False, encoding=options.get("encoding", "utf-8")),
            parse_options=csv.ParseOptions(
                delimiter=options.get("delimiter", ","),
                newlines_in_values=True,
                invalid_row_handler=lambda row: "skip",
            ),
            # Types do not matter here; text never fails.
            convert_options=csv.ConvertOptions(check_utf8=False),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError, OSError) as error:
        raise _unreadable(path, error) from error
    names = list(reader.schema.names)
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise DataError(
            f"Two columns have one name: {doubled[0]!r}",
            place=path,
            remedy="Give each column a name of its own.",
        )
    return names


def _unreadable(path: str, error: Exception) -> DamagedFileError:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    remedy = (
        "Write the file again; its encoding is set with data.encoding, its separator with data.delimiter."
    )
    return DamagedFileError(f"A CSV file cannot be read: {text}", place=path, remedy=remedy)

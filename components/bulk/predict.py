"""The Beam part of a bulk run: groups of files in; answers, bad records and a report per group out.

A group is read, answered and written by one step, in input order, so that the
output is the same under every runner, and memory is that of one batch.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam

from components.bulk.inputs import Inputs, Kind
from components.bulk.readers import Batch, open_reader
from components.bulk.writers import Format, Row, Write, open_writer
from components.errors import DataError
from components.example_gen.batch import Fault
from components.serving import runtimes

IMAGES_PER_GROUP = 256
REPORTS = ".reports"

Group = tuple[int, Sequence[str]]


@dataclass(frozen=True)
class Job:
    """What every worker needs to know.

    Attributes:
        model: folder of a pushed version.
        signature: takes what the files hold.
        kind: of the files.
        column: with the text; empty for the only one, or `text`.
        pair_column: with the second text of a pair; empty for single texts.
        base: folder that names of files are relative to; workers have other working directories.
        output: folder for parts, bad records and reports.
        format: of the parts.
    """

    model: str
    signature: str
    kind: Kind
    column: str
    pair_column: str
    base: str
    output: str
    format: Format


@dataclass
class Report:
    """What came of a group.

    Attributes:
        answered: rows written.
        bad: records that could not be used.
        first_bad: headline, place and remedy of the first; empty where none.
    """

    answered: int = 0
    bad: int = 0
    first_bad: list[str] = field(default_factory=list)


def build(pipeline: beam.Pipeline, job: Job, found: Inputs) -> None:
    """Adds the steps to `pipeline`."""
    _ = (
        pipeline
        | "Groups" >> beam.Create(groups(found))
        | "SpreadGroups" >> beam.Reshuffle()
        | "Answer" >> beam.ParDo(_Answer(job))
    )


def groups(found: Inputs) -> list[Group]:
    """Images in groups of a few hundred, other files one by one."""
    size = IMAGES_PER_GROUP if found.kind == "images" else 1
    names = [str(path) for path in found.files]
    return [(start // size, names[start : start + size]) for start in range(0, len(names), size)]


def read_reports(output: Path) -> Report:
    """All groups' reports together; the first bad record is that of the first group with one."""
    total = Report()
    for path in sorted((output / REPORTS).glob("*.json")):
        report = Report(**json.loads(path.read_text()))
        total.answered += report.answered
        total.bad += report.bad
        total.first_bad = total.first_bad or report.first_bad
    return total


class _Answer(beam.DoFn):
    """Reads a group, writes what the model says of it, and its report."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._job = job

    def setup(self) -> None:
        self._runtime = runtimes.load_version(Path(self._job.model))
        self._read = open_reader(self._job.kind, self._job.column, self._job.pair_column)

    def process(self, group: Group) -> None:
        number, names = group
        folder, report = Path(self._job.output), Report()
        with contextlib.ExitStack() as stack:
            write = stack.enter_context(open_writer(folder, number, self._job.format))
            aside = _Aside(folder / f"bad-{number:06d}.jsonl", stack)
            for name in names:
                for batch in self._batches(name, report, aside):
                    faults = [*batch.faults, *self._answer(name, batch, write, report)]
                    for fault in sorted(faults, key=lambda item: item.number):
                        _note(report, aside, name, fault)
        Path(folder, REPORTS, f"{number:06d}.json").write_text(json.dumps(asdict(report)))

    def _batches(self, name: str, report: Report, aside: _Aside) -> Iterator[Batch]:
        """A file's batches; where it cannot be read further, that is its last bad record."""
        try:
            yield from self._read(Path(self._job.base, name))
        except (DataError, OSError) as error:
            fields = (
                [error.headline, error.place, error.remedy]
                if isinstance(error, DataError)
                else [f"A file cannot be read: {error.strerror or error}", name, "Check its permissions."]
            )
            _add(report, aside, fields, {"file": name, "raw_base64": ""})

    def _answer(self, name: str, batch: Batch, write: Write, report: Report) -> list[Fault]:
        """Writes answers; returns the items that the model cannot take."""
        if not batch.items:
            return []
        try:
            answer = self._runtime.predict([raw for _, raw in batch.items], self._job.signature)
        except Exception as error:
            if len(batch.items) == 1:
                number, raw = batch.items[0]
                return [Fault(number, f"the model cannot take it: {_first_line(error)}", raw)]
            # One bad record must not cost those that were read with it.
            alone = [self._answer(name, Batch((item,)), write, report) for item in batch.items]
            return [fault for faults in alone for fault in faults]
        for row, (number, _) in enumerate(batch.items):
            scores = answer.scores[row]
            if not answer.classes.size:
                write(Row(name, number, "", float(scores), []))
                continue
            best = int(scores.argmax())
            write(Row(name, number, str(answer.classes[row][best]), float(scores[best]), scores.tolist()))
        report.answered += len(batch.items)
        return []


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _note(report: Report, aside: _Aside, name: str, fault: Fault) -> None:
    fields = [
        f"A record cannot be used: {fault.reason}",
        f"{name}, record {fault.number}",
        "Mend or remove it, or go on without with --on-bad quarantine (records are numbered from 0).",
    ]
    raw = base64.b64encode(fault.raw).decode()
    _add(report, aside, fields, {"file": name, "record": fault.number, "raw_base64": raw})


def _add(report: Report, aside: _Aside, fields: list[str], row: dict[str, Any]) -> None:
    report.bad += 1
    report.first_bad = report.first_bad or fields
    aside.write({**row, "reason": fields[0], "place": fields[1]})


class _Aside:
    """Bad records with their reasons, one JSON object a line; no file where there are none."""

    def __init__(self, path: Path, stack: contextlib.ExitStack) -> None:
        self._path, self._stack = path, stack
        self._file: Any = None

    def write(self, row: dict[str, Any]) -> None:
        if self._file is None:
            self._file = self._stack.enter_context(self._path.open("w", encoding="utf-8"))
        self._file.write(json.dumps(row) + "\n")

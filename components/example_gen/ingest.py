"""The Beam part of ExampleGen: groups of sources in, shards and a report per group out.

A group is read, checked, split and written by one step, in input order: no
shuffle, memory for one batch, and the same bytes in every run and under every
runner. (TFX's own writer shuffles, so that training order differs from run to
run, and holds all records in memory on one machine.)
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam
import tensorflow as tf

from components.errors import DamagedFileError, DataError
from components.example_gen import check, origins
from components.example_gen.batch import Batch, Fault
from components.example_gen.readers import open_reader
from components.example_gen.request import Request, Source
from components.example_gen.sources import FileRecord, record_file
from components.example_gen.split import splitter
from components.example_gen.tables import MISSING_COLUMN

Group = tuple[int, Sequence[tuple[int, Source]]]
"""Number of the group; numbers and sources."""

IMAGES_PER_GROUP = 256
SHARD_BYTES = 128 << 20
"""A larger output file is continued in another."""

_COMPRESSION = tf.io.TFRecordOptions("GZIP", compression_level=1)
"""The lowest level: a third of the time of the default, for a quarter more bytes."""


@dataclass(frozen=True)
class Plan:
    """What every worker needs to know.

    Attributes:
        request: of the node.
        kinds: column -> kind, over all files of a table.
        present: splits that folders name.
        cuts: with a split by time, where splits end.
        examples_uri: folder for `Split-*`.
        report_uri: folder for reports of groups.
        quarantine_uri: folder for quarantined records.
    """

    request: Request
    kinds: dict[str, str]
    present: frozenset[str]
    cuts: tuple[float, ...]
    examples_uri: str
    report_uri: str
    quarantine_uri: str


@dataclass
class Report:
    """What came of a group.

    Attributes:
        counts: (split, label) -> records.
        bad: how many records could not be used; of a damaged file, with those that must be behind it.
        damaged: how many files could not be read to their ends.
        first_bad: file number, record number, headline, place, remedy; empty where none.
        first_damaged: the same of the first damaged file.
        files: what `sources.FileRecord` says of each file, in input order.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    bad: int = 0
    damaged: int = 0
    first_bad: list[Any] = field(default_factory=list)
    first_damaged: list[Any] = field(default_factory=list)
    files: list[FileRecord] = field(default_factory=list)

    def to_json(self) -> str:
        counts = sorted([split, label, count] for (split, label), count in self.counts.items())
        files = [asdict(file) for file in self.files]
        return json.dumps({**self.__dict__, "counts": counts, "files": files})


def groups(sources: Sequence[Source], request: Request) -> list[Group]:
    """Images in groups of a few hundred, other files one by one."""
    size = IMAGES_PER_GROUP if request.format == "images" else 1
    numbered = list(enumerate(sources))
    return [(start // size, numbered[start : start + size]) for start in range(0, len(numbered), size)]


def build(pipeline: beam.Pipeline, plan: Plan, sources: Sequence[Source]) -> None:
    """Adds the steps to `pipeline`."""
    _ = (
        pipeline
        | "Groups" >> beam.Create(groups(sources, plan.request))
        | "SpreadGroups" >> beam.Reshuffle()
        | "Ingest" >> beam.ParDo(_Ingest(plan))
    )


class _Ingest(beam.DoFn):
    """Reads a group, writes its shards and its report."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan

    def setup(self) -> None:
        plan = self._plan
        self._read = open_reader(plan.request, plan.kinds)
        self._split = splitter(plan.request.split, plan.present, plan.cuts)

    def process(self, group: Group) -> None:
        number, sources = group
        report = Report()
        with contextlib.ExitStack() as stack:
            shards = _Shards(self._plan.examples_uri, number, stack)
            aside = _Quarantine(self._plan, number, stack)
            for index, source in sources:
                good, bad, content = sum(report.counts.values()), report.bad, None
                for batch in with_unreadable_end(self._read, source):
                    self._take(source, batch, shards, report)
                    for fault in batch.faults:
                        _note(report, index, source, fault)
                        aside.write(source, fault)
                    content = batch.content
                good, bad = sum(report.counts.values()) - good, report.bad - bad
                report.files.append(record_file(source.path, number, good, bad, content))
        with tf.io.gfile.GFile(f"{self._plan.report_uri}/group-{number:06d}.json", "w") as file:
            file.write(report.to_json())

    def _take(self, source: Source, batch: Batch, shards: _Shards, report: Report) -> None:
        label = self._plan.request.label
        for _, record in batch.records:
            split = self._split(source, record)
            shards.write(split, record)
            report.counts[split, source.label or check.label_of(record, label)] += 1


@dataclass(frozen=True)
class _Unreadable(Fault):
    """The rest of a file, from a record on."""

    error: DataError | None = None
    records: int = 1


def with_unreadable_end(read: Callable[[Source], Iterator[Batch]], source: Source) -> Iterator[Batch]:
    """Batches of a source; where reading ends in an error, that is the last batch's fault."""
    read_so_far = 0
    try:
        for batch in read(source):
            read_so_far += len(batch.records) + len(batch.faults)
            yield batch
    except DataError as error:
        lost = _lost(source.path, error, read_so_far)
        yield Batch((), (_Unreadable(read_so_far, error.headline, b"", error, lost),))


def _lost(path: str, error: DataError, read: int) -> int:
    """Records behind a damage, at least: as many a byte as before it."""
    at = error.at_byte if isinstance(error, DamagedFileError) else None
    if not at:
        return 1
    # Of a file that was cut nobody knows how long it was.
    return max(math.ceil(read * (Path(path).stat().st_size - at) / at), 1)


def _note(report: Report, index: int, source: Source, fault: Fault) -> None:
    found = [index, fault.number, *_describe(source, fault)]
    report.first_bad = report.first_bad or found
    if isinstance(fault, _Unreadable):
        report.bad += fault.records
        report.damaged += 1
        report.first_damaged = report.first_damaged or found
    else:
        report.bad += 1


def _describe(source: Source, fault: Fault) -> tuple[str, str, str]:
    """Headline, place and remedy of a fault."""
    if isinstance(fault, _Unreadable) and fault.error is not None:
        place = fault.error.place.replace(source.path, origins.name(source.path))
        return fault.error.headline, place, fault.error.remedy
    place = f"{origins.name(source.path)}, record {fault.number}"
    return f"A record cannot be used: {fault.reason}", place, _remedy(fault.reason)


def _remedy(reason: str) -> str:
    if MISSING_COLUMN in reason:
        return (
            "Name the column with data.text or data.label. "
            "Texts want model.family=text, other tables model.family=tabular."
        )
    return "Mend or remove it, or set data.on_bad_record=quarantine (records are numbered from 0)."


class _Shards:
    """The output files of a group, one or more per split."""

    def __init__(self, root: str, group: int, stack: contextlib.ExitStack) -> None:
        self._root, self._group, self._stack = root, group, stack
        self._open: dict[str, tuple[tf.io.TFRecordWriter, int, int]] = {}

    def write(self, split: str, record: bytes) -> None:
        writer, part, size = self._open.get(split) or (self._start(split, 0), 0, 0)
        if size > SHARD_BYTES:
            writer.close()
            part, size = part + 1, 0
            writer = self._start(split, part)
        writer.write(record)
        self._open[split] = (writer, part, size + len(record))

    def _start(self, split: str, part: int) -> tf.io.TFRecordWriter:
        folder = f"{self._root}/Split-{split}"
        tf.io.gfile.makedirs(folder)
        path = f"{folder}/data_tfrecord-{self._group:06d}-{part:05d}.gz"
        return self._stack.enter_context(tf.io.TFRecordWriter(path, _COMPRESSION))


class _Quarantine:
    """Bad records of a group with their reasons, one JSON object a line."""

    def __init__(self, plan: Plan, group: int, stack: contextlib.ExitStack) -> None:
        self._wanted = plan.request.on_bad_record == "quarantine"
        self._path = f"{plan.quarantine_uri}/group-{group:06d}.jsonl"
        self._stack = stack
        self._file: Any = None

    def write(self, source: Source, fault: Fault) -> None:
        if not self._wanted:
            return
        if self._file is None:
            self._file = self._stack.enter_context(tf.io.gfile.GFile(self._path, "w"))
        headline, place, _ = _describe(source, fault)
        row = {
            "file": origins.name(source.path),
            "record": fault.number,
            "reason": headline,
            "place": place,
            "raw_base64": base64.b64encode(fault.raw).decode(),
        }
        self._file.write(json.dumps(row) + "\n")

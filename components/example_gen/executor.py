"""Executor of the ExampleGen node."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
from tfx import types
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils

from components.errors import DataError
from components.example_gen import ingest, origins, split
from components.example_gen.readers import column_kinds, open_reader
from components.example_gen.request import Request, Source
from components.example_gen.sources import FileRecord, digest, list_images, record_file

Counts = dict[str, dict[str, int]]
"""Split -> label -> number of examples."""

FILES = "files.jsonl"
"""In the report: one `sources.FileRecord` a line."""

_MAX_LABELS = 1000
"""More different labels than this are no classes; they are not written down one by one."""


class Executor(base_beam_executor.BaseBeamExecutor):
    """Reads sources into splits of Examples."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `component.ExampleGen`.

        Raises:
            DataError: a file has changed since the run began, a file or record cannot be
                used (or too many cannot), a split is empty, or classes are missing.
        """
        request = Request.from_json(exec_properties["request"])
        examples, report, quarantine = (
            artifact_utils.get_single_instance(output_dict[key])
            for key in ("examples", "report", "quarantine")
        )
        sources, ignored = sources_of(request)
        with _places_named(sources):
            plan = _plan(request, sources, examples.uri, report.uri, quarantine.uri)
            with self._make_beam_pipeline() as pipeline:
                ingest.build(pipeline, plan, sources)
            outcome = read_reports(report.uri)
            lists = _lists(request)
            paths = [*(source.path for source in sources), *lists]
            files = [*outcome.files, *lists.values()]
            check_unchanged(paths, files, exec_properties["data_digest"])
            check_bad(outcome, request)
            check_counts(outcome.counts, request, sources)
        _describe(examples, report, quarantine, request, sources, ignored, outcome)
        _write_files(f"{report.uri}/{FILES}", [*lists.values(), *outcome.files])


@contextlib.contextmanager
def _places_named(sources: Sequence[Source]) -> Iterator[None]:
    """Errors name what was fetched by where it came from."""
    try:
        yield
    except DataError as error:
        source = next((item.path for item in sources if item.path in error.place), "")
        if not source or origins.name(source) == source:
            raise
        place = error.place.replace(source, origins.name(source))
        raise DataError(error.headline, place=place, remedy=error.remedy) from error


def sources_of(request: Request) -> tuple[Sequence[Source], list[str]]:
    """The request's sources, and files that were passed over."""
    if request.format == "images":
        return list_images(Path(request.options["list"]))
    return request.sources, []


def _plan(
    request: Request, sources: Sequence[Source], examples: str, report: str, quarantine: str
) -> ingest.Plan:
    kinds = column_kinds(request)
    _check_key(request, sources, kinds)
    return ingest.Plan(
        request=request,
        kinds=kinds,
        present=frozenset(source.split for source in sources),
        cuts=tuple(_time_cuts(request, sources, kinds)),
        examples_uri=examples,
        report_uri=report,
        quarantine_uri=quarantine,
    )


def _check_key(request: Request, sources: Sequence[Source], kinds: dict[str, str]) -> None:
    """Raises a DataError where no record has the feature that records are split by.

    All of them would share the key of nothing, and so one split. Reads up to
    the first record that has it.
    """
    key = request.split.key
    if not key:
        return
    read = open_reader(request, kinds)
    seen: set[str] = set()
    for source in sources:
        for batch in ingest.with_unreadable_end(read, source):
            for _, record in batch.records:
                names = set(tf.train.Example.FromString(record).features.feature)
                if key in names:
                    return
                seen |= names
    if not seen:
        return  # without a good record the bad ones are what there is to say
    close = difflib.get_close_matches(key, sorted(seen), n=1, cutoff=0.5)
    raise DataError(
        f"There is no feature {key!r} to split by",
        place="data.splits.key",
        remedy=(f"Did you mean {close[0]!r}? " if close else "") + f"Features: {', '.join(sorted(seen))}.",
    )


def _time_cuts(request: Request, sources: Sequence[Source], kinds: dict[str, str]) -> list[float]:
    """Where splits by time end: one pass over the data, which holds a number per record."""
    plan = request.split
    if plan.by != "time":
        return []
    read = open_reader(request, kinds)
    times = []
    for source in sources:
        for batch in ingest.with_unreadable_end(read, source):
            for number, record in batch.records:
                try:
                    times.append(split.time_of(record, plan.key))
                except ValueError as error:
                    raise DataError(
                        f"A record has no time to split by: {error}", place=f"{source.path}, record {number}"
                    ) from error
    # Without a good record the bad ones are what there is to say.
    return split.time_cuts(times, plan.shares) if times else []


@dataclass(frozen=True)
class Outcome:
    """All groups' reports together.

    Attributes:
        counts: split -> label -> good records.
        good: good records.
        bad: records that could not be used.
        first_bad: headline, place and remedy of the first in input order; empty where none.
        files: what was read, in input order.
        damaged: files that could not be read to their ends.
        first_damaged: as `first_bad`, of the first of those.
    """

    counts: Counts
    good: int
    bad: int
    first_bad: Sequence[str]
    files: Sequence[FileRecord] = ()
    damaged: int = 0
    first_damaged: Sequence[str] = ()


def read_reports(report_uri: str) -> Outcome:
    """Adds up the reports that workers wrote, and removes them."""
    counts: Counts = defaultdict(lambda: defaultdict(int))
    bad, firsts, damaged, ends = 0, [], 0, []
    files: list[FileRecord] = []
    for path in sorted(tf.io.gfile.glob(f"{report_uri}/group-*.json")):
        with tf.io.gfile.GFile(path) as file:
            report = json.load(file)
        tf.io.gfile.remove(path)
        for name, label, count in report["counts"]:
            counts[name][label] += count
        bad += report["bad"]
        files.extend(FileRecord(**record) for record in report["files"])
        damaged += report["damaged"]
        firsts += [report["first_bad"]] if report["first_bad"] else []
        ends += [report["first_damaged"]] if report["first_damaged"] else []
    nested = {name: dict(sorted(labels.items())) for name, labels in sorted(counts.items())}
    good = sum(sum(labels.values()) for labels in nested.values())
    first_bad, first_damaged = (min(found)[2:] if found else () for found in (firsts, ends))
    return Outcome(nested, good, bad, first_bad, files, damaged, first_damaged)


def check_unchanged(paths: Sequence[str], files: Sequence[FileRecord], expected: str) -> None:
    """Raises a DataError where the files are no longer those that the run began with.

    Their examples would else be kept in the cache under the name of other data.

    Args:
        paths: where they were read, which of copies is another path than the recorded one.
        files: what was read there.
        expected: `sources.digest` of all when the run began.
    """
    found = list(zip(paths, (file.sha256 for file in files), strict=True))
    if digest(found) == expected:
        return
    gone = [path for path, content in found if not content]
    suspect = gone[0] if gone else max(paths, key=os.path.getmtime)
    raise DataError(
        "The data was changed while the run was reading it",
        place=f"{suspect}, which cannot be read any more" if gone else f"{suspect}, the last one changed",
        remedy="Run the same command again once nothing writes there any more.",
    )


def check_bad(outcome: Outcome, request: Request) -> None:
    """Raises a DataError for the first bad record, unless so few were quarantined.

    A file that ends in damage is no bad record: what was behind it is not known.
    """
    if not outcome.bad:
        return
    headline, place, remedy = outcome.first_bad
    if request.on_bad_record == "fail":
        more = f" ({outcome.bad} bad records or files in all)" if outcome.bad > 1 else ""
        raise DataError(headline + more, place=place, remedy=remedy)
    # An image is a file of its own: where it is damaged, one record is lost.
    if outcome.damaged and request.damaged_files == "refuse" and request.format != "images":
        headline, place, remedy = outcome.first_damaged
        raise DataError(
            f"{outcome.damaged} file(s) cannot be read to the end, so it is not known how much is lost; the "
            f"first: {headline}",
            place=place,
            remedy=f"{remedy} Or keep what was read before the damage: data.damaged_files=keep.",
        )
    total = outcome.good + outcome.bad
    if outcome.bad > request.max_bad_fraction * total:
        raise DataError(
            f"Too many records cannot be used: {outcome.bad} of {total}, over "
            f"{request.max_bad_fraction:.2%}; the first: {headline}",
            place=place,
            remedy="Mend the data, or raise data.max_bad_fraction.",
        )


def check_counts(counts: Counts, request: Request, sources: Sequence[Source]) -> None:
    """Raises a DataError where a split is empty, or classes are missing."""
    total = sum(sum(labels.values()) for labels in counts.values())
    place = f"{len(sources)} files, first {sources[0].path}" if sources else "no files"
    for name in request.split.names():
        if not counts.get(name):
            raise DataError(
                f"The split {name!r} came out empty: {total} examples in all",
                place=place,
                remedy="Add examples, or give the split a larger share (data.splits).",
            )
    if request.classes:
        _check_classes(counts, request.label, place)


def _check_classes(counts: Counts, label: str, place: str) -> None:
    labels = sorted({name for names in counts.values() for name in names})
    if len(labels) < 2:
        raise DataError(
            f"There is a single class, {labels[0]!r}: nothing can be told apart",
            place=f"{place}, feature {label!r}",
            remedy="Add examples of a second class, or name another label (data.label).",
        )
    for name in labels:
        if name not in counts[split.TRAIN]:
            number = sum(names.get(name, 0) for names in counts.values())
            raise DataError(
                f"The class {name!r} has no training example ({number} in the other splits)",
                place=f"{place}, feature {label!r}",
                remedy="Add examples of it, or leave it out.",
            )


def _describe(
    examples: types.Artifact,
    report: types.Artifact,
    quarantine: types.Artifact,
    request: Request,
    sources: Sequence[Source],
    ignored: list[str],
    outcome: Outcome,
) -> None:
    examples.split_names = artifact_utils.encode_split_names(list(request.split.names()))
    examples_utils.set_payload_format(examples, example_gen_pb2.PayloadFormat.FORMAT_TF_EXAMPLE)
    examples_utils.set_file_format(examples, "tfrecords_gzip")
    sizes = {name: sum(labels.values()) for name, labels in outcome.counts.items()}
    examples.set_string_custom_property("examples_per_split", json.dumps(sizes))
    examples.set_int_custom_property("bad_records", outcome.bad)
    quarantine.set_int_custom_property("bad_records", outcome.bad)
    few = {name: labels if len(labels) <= _MAX_LABELS else {} for name, labels in outcome.counts.items()}
    summary = {
        "files": [origins.name(source.path) for source in sources],
        "ignored": ignored,
        "counts": few,
        "bad_records": outcome.bad,
    }
    with tf.io.gfile.GFile(f"{report.uri}/report.json", "w") as file:
        json.dump(summary, file, indent=1)


def _write_files(path: str, files: Sequence[FileRecord]) -> None:
    """One JSON object a line, since there may be a million."""
    with tf.io.gfile.GFile(path, "w") as file:
        for record in files:
            file.write(json.dumps(asdict(record)) + "\n")


def _lists(request: Request) -> dict[str, FileRecord]:
    """Path -> record of the list that names the images, where one does: it is an input too."""
    path = request.options.get("list", "")
    return {path: record_file(path, -1, 0, 0)} if path and Path(path).is_file() else {}

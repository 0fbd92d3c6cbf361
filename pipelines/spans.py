"""Spans and versions in TFX's own patterns.

    found = find("logs/{YYYY}-{MM}-{DD}/v{VERSION}/*.csv")
    chosen = window(found, span=None, count=7)       # the newest version of the last seven

`{SPAN}` and `{VERSION}` stand for digits; `{YYYY}`, `{MM}`, `{DD}` together
for a day, whose span is its number of days since 1970-01-01, as in TFX.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines import remote
from pipelines.errors import ConfigError, InputError

if TYPE_CHECKING:
    from pipelines.data_stages import Data

_FIELDS = {
    "{SPAN}": r"(?P<span>\d+)",
    "{VERSION}": r"(?P<version>\d+)",
    "{YYYY}": r"(?P<year>\d{4})",
    "{MM}": r"(?P<month>\d{2})",
    "{DD}": r"(?P<day>\d{2})",
}
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, order=True)
class SpanFile:
    """A file or folder of one span and version (0 where the pattern names none); a path or an address."""

    span: int
    version: int
    path: str


def has_spans(pattern: str) -> bool:
    """Whether a path names spans."""
    return any(name in pattern for name in _FIELDS)


def find(pattern: str) -> list[SpanFile]:
    """All files and folders that match, sorted by span and version.

    Raises:
        ConfigError: the pattern has a version but no span, or a part of a date.
        InputError: what lies elsewhere cannot be listed, or a name holds no day of the calendar.
    """
    _check(pattern)
    expression = _expression(pattern)
    as_glob = re.sub("|".join(map(re.escape, _FIELDS)), "*", pattern)
    found = []
    for name in remote.listed(as_glob) if remote.is_remote(pattern) else _here(as_glob):
        match = expression.fullmatch(name)
        if match:
            path = name if remote.is_remote(name) else str(Path(name).absolute())
            found.append(SpanFile(_span(match), int(match.groupdict().get("version") or 0), path))
    return sorted(found)


def _here(pattern: str) -> list[str]:
    return glob.glob(pattern, recursive=True)


def state_of(found: Sequence[SpanFile]) -> str:
    """A digest of the names, sizes and times of the files of some spans; contents are not read.

    Raises:
        InputError: what lies elsewhere cannot be looked at.
    """
    told = []
    for item in found:
        if remote.is_remote(item.path):
            told.append(f"{item.path} {remote.state(item.path)}")
            continue
        here = Path(item.path)
        for path in sorted(here.rglob("*")) if here.is_dir() else [here]:
            with contextlib.suppress(OSError):
                stat = path.stat()
                told.append(f"{path} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def _check(pattern: str) -> None:
    dates = [name for name in ("{YYYY}", "{MM}", "{DD}") if name in pattern]
    if 0 < len(dates) < 3 or (dates and "{SPAN}" in pattern) or not (dates or "{SPAN}" in pattern):
        raise ConfigError(
            f"Expected {{SPAN}}, or all of {{YYYY}}, {{MM}}, {{DD}}. Received: path={pattern!r}",
            place="data.path",
        )


def _expression(pattern: str) -> re.Pattern[str]:
    parts = re.split("(" + "|".join(map(re.escape, [*_FIELDS, "**/", "*", "?"])) + ")", pattern)
    wild = {"**/": r"(?:.*/)?", "*": r"[^/]*", "?": r"[^/]"}
    seen: set[str] = set()
    translated = []
    for part in parts:
        if part in _FIELDS:
            name = part.strip("{}")
            translated.append(f"(?P={_group(part)})" if name in seen else _FIELDS[part])
            seen.add(name)
        else:
            translated.append(wild.get(part, re.escape(part)))
    return re.compile("".join(translated))


def _group(field: str) -> str:
    return re.findall(r"<(\w+)>", _FIELDS[field])[0]


def _span(match: re.Match[str]) -> int:
    groups = match.groupdict()
    if groups.get("span"):
        return int(groups["span"])
    try:
        day = date(int(groups["year"]), int(groups["month"]), int(groups["day"]))
    except ValueError as error:
        raise InputError(
            f"A name holds no day of the calendar: {error}",
            place=match.string,
            remedy="Rename it, or move it out of the data.",
        ) from error
    return (day - _EPOCH).days


def of(data: Data, pattern: str) -> list[SpanFile]:
    """What an experiment's data section reads of a pattern.

    Raises:
        ConfigError, InputError: see `find` and `window`.
    """
    found = [item for item in find(pattern) if item.span not in data.skip_spans]
    return window(found, span=data.span, count=data.window, pattern=pattern)


def window(found: Sequence[SpanFile], *, span: int | None, count: int, pattern: str) -> list[SpanFile]:
    """Each span's newest version, of the last `count` spans up to `span` (the latest where None).

    Raises:
        InputError: there is no such span.
    """
    spans = sorted({item.span for item in found})
    if not spans or (span is not None and span not in spans):
        there = f"{len(spans)} spans, {spans[0]} to {spans[-1]}" if spans else "no spans"
        raise InputError(
            f"There is no span {span}" if span is not None else "No file matches a path with spans",
            place=f"{pattern}: {there}",
            remedy="Check data.path and data.span.",
        )
    last = spans.index(span) if span is not None else len(spans) - 1
    wanted = spans[max(0, last + 1 - count) : last + 1]
    newest = {item.span: item.version for item in found}  # sorted, so the last version stays
    return [item for item in found if item.span in wanted and item.version == newest[item.span]]

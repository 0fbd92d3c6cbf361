"""What became of answers: labelled outcomes that come in after a model has answered.

    added = add(workspace, "digits", Path("outcomes.csv"), now)
    recent(workspace, "digits", version=3, count=200)         # (correct, total)

Kept in `<workspace>/feedback/<model>.jsonl`, one line each: at, version,
prediction, label. A file that has grown large becomes `<model>.1.jsonl` and
takes that one's place, so that the oldest outcomes go.
"""

from __future__ import annotations

import csv
import fcntl
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import InputError
from pipelines.retraining import json_lines
from pipelines.workspace import Workspace

NEEDED = ("prediction", "label")

ROOM = 64 << 20
"""Bytes that a model's outcomes may take."""


def paths_of(workspace: Workspace, model: str) -> tuple[Path, Path]:
    """Where a model's outcomes are kept, the older ones first; either file may be missing."""
    folder = workspace.root / "feedback"
    return folder / f"{model}.1.jsonl", folder / f"{model}.jsonl"


def add(workspace: Workspace, model: str, source: Path, version: int, now: float) -> int:
    """Adds the outcomes of a file; all of them, or none where one is bad.

    Args:
        workspace: where the model is served from.
        model: its name.
        source: CSV with a heading, or JSON Lines: prediction, label, and where
            they are known at (seconds since the epoch) and version.
        version: of outcomes that name none.
        now: of outcomes that name no time.

    Returns:
        How many were added.

    Raises:
        InputError: a file or a line that is not understood.
    """
    lines = [
        json.dumps(_outcome(raw, f"{source}, line {number}", version, now)) + "\n"
        for number, raw in _rows(source)
    ]
    older, target = paths_of(workspace, model)
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("".join(lines))
        file.flush()
        if target.exists() and target.stat().st_size > ROOM // 2:
            target.replace(older)
    return len(lines)


def recent(workspace: Workspace, model: str, version: int, count: int) -> tuple[int, int]:
    """Of a version's newest outcomes how many were right, and how many there are."""
    found = [item for path in paths_of(workspace, model) for item in json_lines.read(path)]
    newest = [item for item in found if item.get("version") == version][-count:]
    return sum(item["prediction"] == item["label"] for item in newest), len(newest)


def _rows(source: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        with open(source, encoding="utf-8-sig", newline="") as file:
            if source.suffix in (".jsonl", ".json"):
                yield from _json_rows(source, file)
            else:
                yield from enumerate(csv.DictReader(file), start=2)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"The outcomes cannot be read: {error}",
            place=str(source),
            remedy="Give a CSV with a heading, or JSON Lines, in UTF-8.",
        ) from error


def _json_rows(source: Path, file: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
        except ValueError as error:
            raise InputError(f"A line is no JSON: {error}", place=f"{source}, line {number}") from error
        if not isinstance(raw, dict):
            raise InputError("A line should be an object", place=f"{source}, line {number}")
        yield number, raw


def _outcome(raw: Mapping[str, Any], place: str, version: int, now: float) -> dict[str, Any]:
    for key in NEEDED:
        if raw.get(key) in (None, ""):
            raise InputError(
                f"An outcome has no {key}",
                place=place,
                remedy=f"Columns: {', '.join(NEEDED)}[, version, at].",
            )
    try:
        at, of = float(raw.get("at") or now), int(raw.get("version") or version)
    except (TypeError, ValueError) as error:
        raise InputError(f"An outcome's time or version is no number: {error}", place=place) from error
    return {"at": at, "version": of, "prediction": str(raw["prediction"]), "label": str(raw["label"])}

"""A sample of what models have answered, for those who watch how answers change.

    log = PredictionLog(Settings(Path("predictions"), share=0.1))
    log.note("digits", 3, outputs, inputs)
    log.close()

One JSON object a line and example, in `<folder>/<model>.jsonl`: at (seconds since
the epoch), version, and class with score, or value. What was asked is left out
unless it is asked for: it may be personal. Files are bounded: at half of the
room the file becomes `<model>.1.jsonl` and takes that one's place. Requests do
not wait: a thread writes, and what it cannot keep up with is dropped.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import queue
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from components.errors import ServableError

_log = logging.getLogger(__name__)

_WAITING = 1_000
"""Requests that wait to be written at most."""

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Settings:
    """What is kept.

    Attributes:
        folder: takes the files.
        share: of requests, in (0, 1].
        max_bytes: of a model's files together.
        inputs: whether what was asked is kept, too.
    """

    folder: Path
    share: float
    max_bytes: int
    inputs: bool = False


@dataclass(frozen=True)
class _Entry:
    at: float
    model: str
    version: int
    outputs: Arrays
    inputs: Arrays


def files_of(folder: Path, model: str) -> tuple[Path, Path]:
    """A model's files, the older one first; either may be missing."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", model)
    return folder / f"{plain}.1.jsonl", folder / f"{plain}.jsonl"


class PredictionLog:
    """Takes notes; `close` writes what is left."""

    def __init__(
        self,
        settings: Settings,
        *,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Makes the folder.

        Raises:
            ServableError: it cannot be written.
        """
        self._settings, self._chance, self._clock = settings, chance, clock
        try:
            settings.folder.mkdir(parents=True, exist_ok=True)
            if not os.access(settings.folder, os.W_OK):
                raise PermissionError(0, "no right to write")
        except OSError as error:
            raise ServableError(
                f"Predictions cannot be logged: {error.strerror or error}",
                place=str(settings.folder),
                remedy="Give prediction_log a folder that can be written.",
            ) from error
        self._queue: queue.Queue[_Entry | None] = queue.Queue(_WAITING)
        self._complained = False
        self._thread = threading.Thread(target=self._write_all, name="prediction-log", daemon=True)
        self._thread.start()

    def note(self, model: str, version: int, outputs: Arrays, inputs: Arrays) -> None:
        """Takes down an answer, or leaves it out; never waits.

        Args:
            model: its name.
            version: that answered.
            outputs: alias -> (B, ...) array; classes and scores, or a regression's outputs.
            inputs: alias -> (B, ...) array.
        """
        if self._chance() >= self._settings.share:
            return
        kept = inputs if self._settings.inputs else {}
        try:
            self._queue.put_nowait(_Entry(self._clock(), model, version, outputs, kept))
        except queue.Full:
            self._complain("they come faster than they can be written; some are left out")

    def close(self) -> None:
        """Writes what waits, and ends."""
        self._queue.put(None)
        self._thread.join()

    def _write_all(self) -> None:
        while (entry := self._queue.get()) is not None:
            try:
                self._write(entry)
            except (OSError, ValueError, IndexError) as error:
                self._complain(str(error))

    def _write(self, entry: _Entry) -> None:
        older, current = files_of(self._settings.folder, entry.model)
        room = self._settings.max_bytes // 2
        for line in _lines(entry):
            if len(line) > room:
                continue
            if current.exists() and current.stat().st_size + len(line) > room:
                current.replace(older)
            with open(current, "ab") as file:
                file.write(line)

    def _complain(self, fault: str) -> None:
        if not self._complained:
            self._complained = True
            _log.warning("Predictions cannot all be logged in %s: %s", self._settings.folder, fault)


def _lines(entry: _Entry) -> Iterator[bytes]:
    for row, said in enumerate(_said(entry.outputs)):
        told: dict[str, Any] = {"at": round(entry.at, 3), "version": entry.version, **said}
        if entry.inputs:
            told["inputs"] = {alias: _plain(array[row]) for alias, array in entry.inputs.items()}
        yield (json.dumps(told) + "\n").encode()


def _said(outputs: Arrays) -> Iterator[dict[str, Any]]:
    """What was said of each example; nothing where a model has neither scores nor numbers to say."""
    scores, classes = outputs.get("scores"), outputs.get("classes")
    if scores is not None and scores.ndim == 2 and scores.shape[1]:
        best = scores.argmax(1)
        for row, index in enumerate(best.tolist()):
            name = _plain(classes[row, index]) if classes is not None and classes.ndim == 2 else str(index)
            yield {"class": name, "score": round(float(scores[row, index]), 6)}
        return
    values = outputs.get("outputs")
    if values is not None and values.dtype.kind == "f" and values.size == len(values):
        for value in values.ravel().tolist():
            yield {"value": value}


def _plain(value: Any) -> Any:
    """As JSON carries it; bytes that are no text as TensorFlow Serving's REST API writes them."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value] if value.dtype == object else value.tolist()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    return value.item() if isinstance(value, np.generic) else value

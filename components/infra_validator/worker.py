"""What runs in a process of its own: loading a servable and answering examples, as a server would."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from components.serving import examples, runtimes

SCORES_FILE = "scores.npy"
CLASSES_FILE = "classes.json"


@dataclass(frozen=True)
class Request:
    """What to load and what to send.

    Attributes:
        servable_uri: the servable's artifact folder.
        examples_uri: Examples to send.
        split: their split; the one that was judged.
        count: how many to send.
        folder: where the answers go.
    """

    servable_uri: str
    examples_uri: str
    split: str
    count: int
    folder: Path


def answer(request: Request) -> None:
    """Writes scores and class names into the request's folder."""
    runtime = runtimes.load(request.servable_uri)
    records = examples.read_split(request.examples_uri, request.split, request.count)
    given = runtime.predict(records)
    np.save(request.folder / SCORES_FILE, given.scores)
    (request.folder / CLASSES_FILE).write_text(json.dumps(given.classes.tolist()))

"""For formats that no model server loads: loading and answering in a process of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil

from components.infra_validator import ask
from components.serving import examples, runtimes

SCORES_FILE = "scores.npy"
CLASSES_FILE = "classes.json"
FIGURES_FILE = "figures.json"


@dataclass(frozen=True)
class Request:
    """What to load and what to send.

    Attributes:
        servable_uri: the servable's artifact folder.
        examples_uri: Examples to send.
        split: their split; the one that was judged.
        places: of those to send, in the split.
        raw_features: signature -> the feature of the Examples that it takes.
        folder: an empty folder, for what is laid out and answered.
    """

    servable_uri: str
    examples_uri: str
    split: str
    places: Sequence[int]
    raw_features: Mapping[str, str]
    folder: Path


def answer(request: Request) -> None:
    """Writes scores, class names and figures into the request's folder."""
    began = time.monotonic()
    runtime = runtimes.load(request.servable_uri)
    records = examples.read_at(request.examples_uri, request.split, request.places)
    given = runtime.predict(records)
    loaded_s = time.monotonic() - began
    latency = ask.measure(lambda record: runtime.predict([record]), records)
    figures = {
        "server": f"{runtime.servable.runtime} runtime",
        "cold_load_s": loaded_s,
        "memory_mb": psutil.Process().memory_info().rss / 2**20,
        **asdict(latency),
    }
    np.save(request.folder / SCORES_FILE, given.scores)
    (request.folder / CLASSES_FILE).write_text(json.dumps(given.classes.tolist()))
    (request.folder / FIGURES_FILE).write_text(json.dumps(figures))

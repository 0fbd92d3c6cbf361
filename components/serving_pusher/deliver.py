"""A push with all that belongs to it: warm-up requests, manifest, and proof by the server.

version = deliver(delivery, server)
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.errors import PushError, ServableError
from components.serving import examples, manifest, runtimes
from components.serving.servable import version_folder
from components.serving_pusher import canary, root, warmup
from components.serving_pusher.push import push, pushed_before


@dataclass(frozen=True)
class Origin:
    """Where a servable came from, for stamp and manifest.

    Attributes:
        model: its name in the serving folder.
        run: the run's id.
        servable_id: MLMD's id of the artifact.
        chosen: the technique, why, and its measured figures.
        metrics: slice -> metric -> value, on the test split.
    """

    model: str
    run: str
    servable_id: int
    chosen: Mapping[str, Any]
    metrics: Mapping[str, Mapping[str, float]]

    def stamp(self) -> dict[str, str]:
        return {"run": self.run, "servable": str(self.servable_id)}


@dataclass(frozen=True)
class Delivery:
    """What to push.

    Attributes:
        servable_uri: the servable's artifact folder.
        root: `serving/<model>`.
        origin: where it came from.
        records: serialized Examples of the test split, some of which go with it.
        raw_features: signature -> the feature that it takes.
    """

    servable_uri: str
    root: Path
    origin: Origin
    records: Sequence[bytes]
    raw_features: Mapping[str, str]


def deliver(delivery: Delivery, server: canary.Server | None) -> int:
    """Pushes, and where there is a server makes sure that it serves what was pushed.

    Returns:
        The version's number.

    Raises:
        PushError: the root cannot be written, or the server does not serve the
            version; it is then withdrawn, and what was in service before is again.
    """
    runtime = runtimes.load(delivery.servable_uri)
    records = warmup.choose(delivery.records)
    known = canary.Canary.of(runtime, records)
    inputs = examples.raw_inputs(runtime.servable, records, delivery.raw_features)

    def complete(staged: Path) -> None:
        warmup.write(staged, warmup.requests(delivery.origin.model, inputs))
        manifest.write(staged, _manifest(delivery.origin, known))

    source = version_folder(delivery.servable_uri)
    stamp = delivery.origin.stamp()
    # A push that was killed before it could say so is not made again by its run.
    version = pushed_before(delivery.root, stamp) or push(source, delivery.root, stamp, complete)
    if server is not None:
        _prove(delivery.root, version, server, known)
    return version


def _manifest(origin: Origin, known: canary.Canary) -> dict[str, Any]:
    return {
        **asdict(origin),
        "pushed_at": time.time(),
        "servable": asdict(known.servable),
        "canary": known.to_json(),
    }


def _prove(folder: Path, version: int, server: canary.Server, known: canary.Canary) -> None:
    try:
        canary.verify(server, version, known)
    except ServableError as error:
        place = _withdraw(folder, version, error.headline)
        raise PushError(
            f"The pushed version was withdrawn: {error.headline}",
            place=f"{place}, server {error.place}" if error.place else str(place),
            remedy="See that the server runs, serves this root and loads this kind of model (its log says "
            "why not); then run again, which pushes the next version.",
        ) from error


def _withdraw(folder: Path, version: int, reason: str) -> Path:
    try:
        return root.withdraw(folder, version, root.Withdrawal("canary", reason, time.time()))
    except OSError as error:
        raise PushError(
            f"Version {version} is to be withdrawn, and cannot be: {error.strerror or error}; {reason}",
            place=str(folder / str(version)),
            remedy="Move its folder out of the serving root.",
        ) from error


def chosen_of(report_uri: str) -> dict[str, Any]:
    """The chosen candidate of a rewrite report: name, reason, objective and figures."""
    report = json.loads(Path(report_uri, "candidates.json").read_text())
    row = next(item for item in report["candidates"] if item["name"] == report["chosen"])
    return {
        "name": report["chosen"],
        "reason": report["reason"],
        "objective": report["objective"],
        "figures": row["figures"],
    }


def metrics_of(evaluation_uri: str) -> dict[str, dict[str, float]]:
    """Slice -> metric -> value of the candidate, from the Evaluator's summary."""
    found = json.loads(Path(evaluation_uri, "summary.json").read_text())["metrics"]["candidate"]
    return {str(name): dict(values) for name, values in found.items()}

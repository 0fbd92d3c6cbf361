"""A push with all that belongs to it: warm-up requests, manifest, and proof by the server.

    delivered = deliver(delivery, server)
    delivered.version, delivered.new

A push is done only when every mirror has it and the configured server serves
it. A servable that is in service already is not pushed a second time: mirrors
and server are seen to all the same.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from components.errors import PushError, RejectedError, ServableError, UserError, WrongAnswersError
from components.serving import examples, manifest, runtimes
from components.serving.servable import SIGNATURE_TENSORS, Signature, version_folder
from components.serving.triton import CONFIG_FILE
from components.serving_pusher import canary, mirror, root, warmup
from components.serving_pusher.push import push

_UNPROVEN = ".unproven"

_SERVER_REMEDY = (
    "See that the server runs, serves this root and loads this kind of model (its log says why not); "
    "then run again, which pushes the next version."
)


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
        mirrors: where copies of the root are kept, as URLs of file systems.
    """

    servable_uri: str
    root: Path
    origin: Origin
    records: Sequence[bytes]
    raw_features: Mapping[str, str]
    mirrors: Sequence[str] = ()


@dataclass(frozen=True)
class Delivered:
    """The version that is now in service; `new` is False where it was already."""

    version: int
    new: bool


def deliver(delivery: Delivery, server: canary.Server | None) -> Delivered:
    """Pushes, copies to mirrors, and where there is a server makes sure that it serves what was pushed.

    Raises:
        RejectedError: the version answers wrongly on the server.
        PushError: the root or a mirror cannot be written, or the server does not serve
            the version. A new one is then withdrawn, and what was in service before is again.
    """
    runtime = runtimes.load(delivery.servable_uri)
    known = canary.Canary.of(runtime, warmup.choose(delivery.records))
    for url in delivery.mirrors:
        mirror.join(delivery.root, url)
    current = _already_in_service(delivery)
    proof = _Proof(delivery)
    if current is None:
        proof.begin()
    version = _push(delivery, known) if current is None else current
    try:
        mirror.follow(delivery.root, delivery.mirrors)
        if server is not None:
            canary.verify(server, version, known)
    except Exception as error:
        known_error = _told(error)
        if current is not None and not proof.is_due:
            raise _kind(known_error)(
                known_error.headline, place=known_error.place, remedy=known_error.remedy
            ) from error
        failure = _withdrawn(delivery, version, known_error)
        proof.settle()
        raise failure from error
    proof.settle()
    return Delivered(version, new=current is None)


class _Proof:
    """Whether a servable went into service before mirrors and server were seen to.

    A file beside the versions says so from before the push until all is well:
    a push that was killed between is gone on with as if it were new, so that a
    version which turns out bad is withdrawn all the same.
    """

    def __init__(self, delivery: Delivery) -> None:
        self._path = delivery.root / f"{_UNPROVEN}-{delivery.origin.servable_id}"

    @property
    def is_due(self) -> bool:
        return self._path.exists()

    def begin(self) -> None:
        # Where nothing can be written, the push says so.
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch()

    def settle(self) -> None:
        """It was given, or was given against the version, which is withdrawn."""
        self._path.unlink(missing_ok=True)


def _told(error: Exception) -> UserError:
    """The error as one of ours: clients of servers and of file systems raise their own."""
    if isinstance(error, UserError):
        return error
    return PushError(
        f"The version could not be shown to be served: {type(error).__name__}: {error}".rstrip(": "),
        remedy=_SERVER_REMEDY,
    )


def _already_in_service(delivery: Delivery) -> int | None:
    """The version in service, where it is this very servable and whole; else None."""
    number = root.in_service(delivery.root)
    folder = None if number is None else root.folder_of(delivery.root, number)
    if folder is None or not (folder / manifest.PATH).exists():
        return None
    try:
        same = manifest.read(folder).get("servable_id") == delivery.origin.servable_id
        return number if same and not manifest.faults(folder, contents=False) else None
    except ServableError:
        return None  # Pushed by others, or damaged: the new version takes its place.


def _push(delivery: Delivery, known: canary.Canary) -> int:

    def complete(staged: Path) -> None:
        warmup.write(staged, warmup.requests(delivery.origin.model, _inputs(known, delivery.raw_features)))
        manifest.write(staged, _manifest(delivery.origin, known))
        if (staged / CONFIG_FILE).exists():  # Triton's, which it looks for beside the versions
            root.write_whole(delivery.root / CONFIG_FILE, (staged / CONFIG_FILE).read_text())

    source = version_folder(delivery.servable_uri)
    return push(source, delivery.root, delivery.origin.stamp(), complete)


def _inputs(known: canary.Canary, raw_features: Mapping[str, str]) -> Mapping[Signature, Sequence[Any]]:
    """What each signature takes; of a format that takes tensors, only what every server of it has."""
    core = known.servable.core
    if core is None or known.tensors is None:
        return examples.raw_inputs(known.servable, known.records, raw_features)
    return {Signature(SIGNATURE_TENSORS, core.input): list(known.tensors)}


def _manifest(origin: Origin, known: canary.Canary) -> dict[str, Any]:
    return {
        **asdict(origin),
        "pushed_at": time.time(),
        "servable": asdict(known.servable),
        "canary": known.to_json(),
    }


def _withdrawn(delivery: Delivery, version: int, error: UserError) -> PushError:
    """Takes a version out of service everywhere; returns the error to raise."""
    place = _withdraw(delivery.root, version, error.headline)
    for url in delivery.mirrors:
        # One that cannot be reached is what failed, or will be seen to by the next push.
        with contextlib.suppress(PushError):
            mirror.follow(delivery.root, [url])
    return _kind(error)(
        f"The pushed version was withdrawn: {error.headline}",
        place=f"{place}, {error.place}" if error.place else str(place),
        remedy=error.remedy if isinstance(error, PushError) else _SERVER_REMEDY,
    )


def _kind(error: UserError) -> type[PushError]:
    return RejectedError if isinstance(error, WrongAnswersError) else PushError


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

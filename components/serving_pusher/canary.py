"""Requests with known answers, and asking a server for them.

canary = Canary.of(runtime, records)
verify(server, version, canary)          # returns when the server answers as it should
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from components.errors import ServableError, WrongAnswersError
from components.serving.client import ModelClient, ServerError
from components.serving.runtimes import Runtime, TensorRuntime
from components.serving.servable import SIGNATURE_TENSORS, Servable

_POLL_S = 0.2
_INLINE_BYTES = 4096

_OF_MODELS = {400, 500}
"""HTTP statuses of a request that a loaded model cannot answer; others are of a server in trouble."""


@dataclass(frozen=True)
class Canary:
    """Serialized Examples and what the pushed bytes say of them.

    Attributes:
        servable: how it is called.
        records: B serialized Examples.
        scores: (B, C) float32, from the bytes that are pushed.
        tensors: (B, ...) what the core takes, for formats that take tensors only.
    """

    servable: Servable
    records: Sequence[bytes]
    scores: np.ndarray
    tensors: np.ndarray | None = None

    @classmethod
    def of(cls, runtime: Runtime, records: Sequence[bytes]) -> Self:
        """Asks a loaded servable for its answers."""
        tensors = runtime.tensors(records) if isinstance(runtime, TensorRuntime) else None
        return cls(runtime.servable, records, runtime.predict(records).scores, tensors)

    def to_json(self) -> dict[str, Any]:
        """For the manifest: digests and answers; the records themselves where small.

        Larger ones lie in the warm-up file of the same folder.
        """
        signature = self.servable.signatures[0]
        rows = [
            {
                "sha256": hashlib.sha256(record).hexdigest(),
                **({"base64": base64.b64encode(record).decode()} if len(record) <= _INLINE_BYTES else {}),
                "scores": scores.tolist(),
            }
            for record, scores in zip(self.records, self.scores, strict=True)
        ]
        return {"signature": signature.name, "input": signature.input, "examples": rows}


@dataclass(frozen=True)
class Server:
    """A model server that a push must reach.

    Attributes:
        client: its REST API.
        model: the model's name there.
        timeout_s: the new version must be AVAILABLE within this.
        tolerance: absolute, on scores; the server's TensorFlow and device may be others.
    """

    client: ModelClient
    model: str
    timeout_s: float
    tolerance: float


class Clock(Protocol):
    """What `time` has of this."""

    def monotonic(self) -> float: ...
    def sleep(self, seconds: float, /) -> None: ...


def verify(server: Server, version: int, canary: Canary, clock: Clock = time) -> None:
    """Waits until the version is AVAILABLE, then compares its answers with the known ones.

    Raises:
        WrongAnswersError: it answers otherwise, or with an error.
        ServableError: it did not become available, or the server does not answer any more.
    """
    _wait(server, version, clock)
    try:
        rows = _ask(server, version, canary)
    except ServerError as error:
        kind = WrongAnswersError if error.status in _OF_MODELS else ServableError
        raise kind(f"Version {version} does not answer: {error.headline}", place=error.place) from error
    fault = _fault(rows, canary, server.tolerance)
    if fault:
        raise WrongAnswersError(f"Version {version} answers wrongly: {fault}", place=server.model)


def _ask(server: Server, version: int, canary: Canary) -> list[dict[str, Any]]:
    """The outputs of each example; of tensors where the format takes no more, for any server of it."""
    servable, client = canary.servable, server.client
    if servable.core is None or canary.tensors is None:
        first = servable.signatures[0]
        return client.predict(server.model, first.name, first.input, canary.records, version=version)
    rows = client.predict_values(
        server.model, SIGNATURE_TENSORS, servable.core.input, canary.tensors.tolist(), version=version
    )
    # A server of the bare format knows no class names, and sends its one output without a name.
    return [
        {
            servable.scores: row.get(servable.scores, row.get("outputs")),
            servable.classes: row.get(servable.classes, servable.class_names),
        }
        for row in rows
    ]


def _wait(server: Server, version: int, clock: Clock) -> None:
    deadline = clock.monotonic() + server.timeout_s
    while True:
        state, place = _state(server, version)
        if state == "AVAILABLE":
            return
        if state == "END":
            raise ServableError(f"Version {version} does not load in the server", place=server.model)
        if clock.monotonic() > deadline:
            raise ServableError(
                f"Version {version} was not available within {server.timeout_s:g} s: {state}", place=place
            )
        clock.sleep(_POLL_S)


def _state(server: Server, version: int) -> tuple[str, str]:
    """The version's state, or why there is none; and where."""
    try:
        return server.client.status(server.model).get(version, "the server has not seen it"), server.model
    except ServerError as error:
        return error.headline, error.place


def _fault(rows: Sequence[dict[str, Any]], canary: Canary, tolerance: float) -> str:
    servable = canary.servable
    try:
        scores = np.array([row[servable.scores] for row in rows], np.float64)
        classes = [tuple(row[servable.classes]) if servable.class_names else () for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        return f"its outputs are not as expected ({type(error).__name__}: {error})"
    if scores.shape != canary.scores.shape:
        return f"scores have shape {scores.shape}; expected {canary.scores.shape}"
    if any(row != servable.class_names for row in classes):
        return f"class names differ from {list(servable.class_names)}"
    # Probabilities are at most 1; a regression's numbers have a size of their own.
    scale = 1.0 if servable.class_names else max(1.0, float(np.abs(canary.scores).max()))
    return _difference(scores, canary.scores, tolerance * scale)


def _difference(scores: np.ndarray, known: np.ndarray, tolerance: float) -> str:
    difference = float(np.abs(scores - known).max()) if scores.size else 0.0
    if not difference <= tolerance:  # also where it is no number
        return f"scores differ from the known ones by up to {difference:.2e} (at most {tolerance:g})"
    return ""

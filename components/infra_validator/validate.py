"""Loads the very bytes to be pushed in a real server, checks its answers, and measures it.

verdict = validate(request, expected, Limits(max_p99_ms=20.0))
verdict.faults, verdict.figures
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from components import subprocesses
from components.errors import ServableError
from components.infra_validator import ask, model_server, worker
from components.infra_validator.worker import Request
from components.rewriter.catalogue import LOADS, Target
from components.serving import examples
from components.serving.client import ModelClient
from components.serving.servable import Servable

SERVED_RUNTIMES = ("saved_model", "litert", "onnxruntime")
"""What a server loads; other formats are loaded by their runtime in a process of its own."""

FIGURES_FILE = "figures.json"


@dataclass(frozen=True)
class Expected:
    """What a servable must answer.

    Attributes:
        judged: (N, C) float32, the Rewriter's scores of the examples that it judged, in file order.
        tolerance: absolute, on probabilities.
        target: what is to load it.
    """

    judged: np.ndarray
    tolerance: float
    target: Target

    def first(self, count: int) -> Expected:
        return replace(self, judged=self.judged[:count])


@dataclass(frozen=True)
class Limits:
    """What a servable may take; None for no limit.

    Attributes:
        seconds: for loading.
        max_p99_ms: 99th percentile of single requests by gRPC.
        max_memory_mb: of the server's process, in MiB.
    """

    seconds: float
    max_p99_ms: float | None = None
    max_memory_mb: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What was found.

    Attributes:
        faults: what is wrong, as sentences; empty when nothing is.
        figures: what was measured: `server`, `cold_load_s`, `p50_ms`, `p95_ms`,
            `p99_ms`, `requests`, `memory_mb`; empty where no server could be asked.
    """

    faults: list[str]
    figures: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: str) -> None:
        """Writes the figures and faults beside the blessing."""
        text = json.dumps({"figures": dict(self.figures), "faults": self.faults}, indent=1)
        Path(folder, FIGURES_FILE).write_text(text)


def validate(request: Request, expected: Expected, limits: Limits) -> Verdict:
    """Checks a servable.

    Args:
        request: what to load and send.
        expected: what it must answer.
        limits: what it may take.
    """
    expected = expected.first(len(request.places))
    try:
        servable = Servable.read(request.servable_uri)
        if servable.runtime not in LOADS[expected.target]:
            return Verdict([f"the target {expected.target} does not load it: it is for {servable.runtime}"])
        if servable.runtime in SERVED_RUNTIMES:
            return _in_server(request, servable, expected, limits)
        return _in_runtime(request, servable, expected, limits)
    except (subprocesses.WorkerFailed, ServableError) as error:
        reason = getattr(error, "headline", error)
        return Verdict([f"the servable could not be loaded and asked: {reason}"])


def _in_server(request: Request, servable: Servable, expected: Expected, limits: Limits) -> Verdict:
    records = examples.read_at(request.examples_uri, request.split, request.places)
    root = model_server.lay_out(request.servable_uri, request.folder)
    # Raw input for formats that take tensors is what the embedded server adds.
    embedded = servable.core is not None
    with model_server.serving(root, seconds=limits.seconds, embedded_only=embedded) as server:
        grpc = ask.Grpc(server.port)
        try:
            faults = list(_answer_faults(request, servable, server, grpc, records, expected))
            latency = _latency(grpc, servable, records)
        finally:
            grpc.close()
        figures = {
            "server": server.kind,
            "cold_load_s": server.cold_load_s,
            "memory_mb": server.memory_mb(),
            **asdict(latency),
        }
    return Verdict(faults + over_limits(figures, limits), figures)


def _answer_faults(
    request: Request,
    servable: Servable,
    server: model_server.ModelServer,
    grpc: ask.Grpc,
    records: list[bytes],
    expected: Expected,
) -> Iterator[str]:
    """Every signature by both protocols against the judged scores."""
    rest = ModelClient("127.0.0.1", server.rest_port)
    for signature, raw in examples.raw_inputs(servable, records, request.raw_features).items():
        answers = {
            "gRPC": grpc.predict(servable, signature, raw),
            "REST": ask.by_rest(rest, servable, signature, raw),
        }
        for protocol, (scores, classes) in answers.items():
            for fault in compare(scores, classes, servable.class_names, expected):
                yield f"{signature.name} by {protocol}: {fault}"


def _latency(grpc: ask.Grpc, servable: Servable, records: list[bytes]) -> ask.Latency:
    signature = servable.signatures[0]
    return ask.measure(grpc.send, [grpc.request(signature, [record]) for record in records])


def over_limits(figures: Mapping[str, Any], limits: Limits) -> list[str]:
    """Limits that the figures pass, as sentences."""
    faults = []
    if limits.max_p99_ms is not None and figures["p99_ms"] > limits.max_p99_ms:
        faults.append(
            f"the 99th percentile of {figures['requests']} requests is {figures['p99_ms']:.1f} ms; "
            f"infra.max_p99_ms is {limits.max_p99_ms:g}"
        )
    if limits.max_memory_mb is not None and figures["memory_mb"] > limits.max_memory_mb:
        faults.append(
            f"the server takes {figures['memory_mb']:.0f} MiB; "
            f"infra.max_memory_mb is {limits.max_memory_mb:g}"
        )
    return faults


def _in_runtime(request: Request, servable: Servable, expected: Expected, limits: Limits) -> Verdict:
    """For formats that TensorFlow Serving does not load."""
    subprocesses.run(worker.answer, request, limits=subprocesses.Limits(limits.seconds))
    scores = np.load(request.folder / worker.SCORES_FILE, allow_pickle=False)
    classes = json.loads((request.folder / worker.CLASSES_FILE).read_text())
    figures = json.loads((request.folder / worker.FIGURES_FILE).read_text())
    faults = compare(scores, classes, servable.class_names, expected)
    return Verdict(faults + over_limits(figures, limits), figures)


def compare(
    scores: np.ndarray, classes: list[list[str]], class_names: tuple[str, ...], expected: Expected
) -> list[str]:
    """Checks shape, finiteness, class names and agreement with the judged scores."""
    judged = expected.judged
    if scores.shape != judged.shape:
        return [f"scores have shape {scores.shape}; expected {judged.shape}"]
    faults = []
    if not np.isfinite(scores).all():
        faults.append(f"{int((~np.isfinite(scores)).sum())} scores are not finite numbers")
    if any(tuple(row) != class_names for row in classes):
        faults.append(f"class names differ from {list(class_names)}")
    difference = np.abs(scores - judged).max() if scores.size else 0.0
    # Probabilities are at most 1; a regression's numbers have a size of their own.
    tolerance = expected.tolerance * (1.0 if class_names else max(1.0, float(np.abs(judged).max())))
    if not difference <= tolerance:
        faults.append(
            f"answers differ from the judged ones by up to {difference:.2e} (at most {tolerance:.2g})"
        )
    return faults

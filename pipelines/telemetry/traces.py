"""A run as an OpenTelemetry trace: a span for the run, one for every try of a node.

    if traces.wanted(os.environ):
        spans = Traces(traces.exporter(os.environ))
        spans.take(notice)
        spans.close()

What is sent where is said by OpenTelemetry's own variables
(OTEL_EXPORTER_OTLP_ENDPOINT and the rest); a TRACEPARENT in the environment
becomes the parent. Needs the extra `otel`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import TYPE_CHECKING, Any

from pipelines.errors import ConfigError
from pipelines.runners.events import FAILED
from pipelines.telemetry.notices import Notice

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER, _DISABLED = "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_GROUP = "opentelemetry_traces_exporter"
_BAD_STATES = ("failed", "interrupted")


def wanted(environment: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's variables ask for traces: they name an exporter, or where to send."""
    if environment.get(_DISABLED, "").lower() == "true" or environment.get(_EXPORTER) == "none":
        return False
    return bool(environment.get(_EXPORTER)) or any(environment.get(name) for name in _ENDPOINTS)


def exporter(environment: Mapping[str, str]) -> SpanExporter:
    """The exporter that OpenTelemetry's variables name, among those that packages bring.

    Raises:
        ConfigError: it is not installed, or there is none of that name.
    """
    asked = environment.get(_EXPORTER) or "otlp"
    name = _otlp(environment) if asked == "otlp" else asked
    found = {point.name: point for point in metadata.entry_points(group=_GROUP)}
    if name not in found:
        raise ConfigError(
            f"There is no exporter of traces called {asked!r}",
            place=_EXPORTER,
            remedy="pip install 'headrace[otel]' brings otlp (http/protobuf); others are packages of "
            f"OpenTelemetry's. Installed: {', '.join(sorted(found)) or 'none'}",
        )
    return found[name].load()()


def _otlp(environment: Mapping[str, str]) -> str:
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "http/protobuf")
    if protocol not in _OTLP:
        raise ConfigError(
            f"Traces cannot be sent by {protocol!r}", place=_PROTOCOLS[1], remedy=f"Use one of {list(_OTLP)}."
        )
    return _OTLP[protocol]


class Traces:
    """Spans of what notices tell. Not thread-safe; what is sent is sent by a thread of the processor's."""

    def __init__(
        self,
        processor: SpanProcessor,
        environment: Mapping[str, str] = os.environ,
        lost: Callable[[], int] = lambda: 0,
    ) -> None:
        """Args: what spans go to; where a parent is looked for; how many could not be delivered."""
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        version = metadata.version("headrace")
        ours = Resource.create({"service.name": "headrace", "service.version": version})
        # Last, so that OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word.
        self._provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()))
        self._provider.add_span_processor(processor)
        self._lost = lost
        self._tracer = self._provider.get_tracer("headrace", version)
        carrier = {key.lower(): value for key, value in environment.items()}
        self._outside = TraceContextTextMapPropagator().extract(
            {key: carrier[key] for key in ("traceparent", "tracestate") if key in carrier}
        )
        self._round: Span | None = None
        self._run: Span | None = None
        self._nodes: dict[str, Span] = {}
        self._tries: dict[str, int] = {}
        self._handlers = {
            "retraining.round_begun": self._round_begun,
            "retraining.round_ended": self._round_ended,
            "run.begun": self._run_begun,
            "run.ended": self._run_ended,
            "node.begun": self._node_begun,
            "node.ended": self._node_ended,
        }

    def take(self, notice: Notice) -> None:
        """Begins or ends a span, where the notice is about one."""
        handler = self._handlers.get(notice.event)
        if handler is not None:
            handler(notice.facts, int(1e9 * notice.at))

    def close(self) -> bool:
        """Ends what is open, as failed, and sends what is left; False where spans were lost."""
        left = [*self._nodes.values(), *(span for span in (self._run, self._round) if span is not None)]
        for span in left:
            _fail(span, "the program ended before it")
            span.end()
        self._provider.shutdown()
        lost = self._lost()
        if lost:
            print(f"{lost} spans could not be delivered", file=sys.stderr)
        return not lost

    def _start(self, name: str, within: Span | None, at_ns: int, facts: Mapping[str, Any]) -> Span:
        return self._tracer.start_span(
            name, self._context(within), start_time=at_ns, attributes=_named(facts)
        )

    def _context(self, within: Span | None) -> Context:
        from opentelemetry.trace import set_span_in_context

        return self._outside if within is None else set_span_in_context(within)

    def _round_begun(self, facts: Mapping[str, Any], at_ns: int) -> None:
        told = {key: facts[key] for key in ("experiment", "round", "reason")}
        self._round = self._start(f"retrain {facts['experiment']}", None, at_ns, told)

    def _round_ended(self, facts: Mapping[str, Any], at_ns: int) -> None:
        span, self._round = self._round, None
        if span is None:
            return
        span.set_attributes(_named({"outcome": facts["outcome"], "version": facts["version"]}))
        if facts["outcome"] == "failed":
            _fail(span, facts["detail"])
        span.end(at_ns)

    def _run_begun(self, facts: Mapping[str, Any], at_ns: int) -> None:
        told = {key: facts[key] for key in ("experiment", "run")}
        self._run = self._start(f"run {facts['experiment']}", self._round, at_ns, told)
        self._tries = {}

    def _run_ended(self, facts: Mapping[str, Any], at_ns: int) -> None:
        span, self._run = self._run, None
        if span is None:
            return
        span.set_attributes(_named({key: facts[key] for key in ("state", "accuracy", "version", "refusal")}))
        if facts["state"] in _BAD_STATES:
            _fail(span, facts["error"]["headline"] if facts["error"] else facts["state"])
        for left in self._nodes.values():
            _fail(left, "the run ended before it")
            left.end(at_ns)
        self._nodes = {}
        span.end(at_ns)

    def _node_begun(self, facts: Mapping[str, Any], at_ns: int) -> None:
        name = facts["node"]
        self._tries[name] = self._tries.get(name, 0) + 1
        told = {"node": name, "run": facts["run"], "try": self._tries[name]}
        self._nodes[name] = self._start(name, self._run, at_ns, told)

    def _node_ended(self, facts: Mapping[str, Any], at_ns: int) -> None:
        span = self._nodes.pop(facts["node"], None)
        if span is None:
            return
        span.set_attributes(_named({"state": facts["state"]}))
        if facts["state"] == FAILED:
            _fail(span, facts["error"]["headline"] if facts["error"] else FAILED, facts["kind"])
        span.end(at_ns)


def _named(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {f"headrace.{key}": value for key, value in facts.items() if value is not None}


def _fail(span: Span, why: str, kind: str | None = None) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_status(Status(StatusCode.ERROR, why))
    span.set_attribute("error.type", kind or "_OTHER")

"""Traces: spans of runs and nodes, and what OpenTelemetry's variables say about where they go."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pipelines.errors import ConfigError
from pipelines.telemetry import traces
from pipelines.telemetry.notices import Notice
from pipelines.telemetry.traces import Traces
from tests.pipelines.telemetry.notices import RUN, notices_of_a_run


def spans_of(*notices: Notice, **environment: str):
    """Name -> its spans, in the order of their beginnings."""
    kept = InMemorySpanExporter()
    made = Traces(SimpleSpanProcessor(kept), environment)
    for notice in notices:
        made.take(notice)
    made.close()
    found: dict[str, list] = {}
    for span in sorted(kept.get_finished_spans(), key=lambda span: span.start_time):
        found.setdefault(span.name, []).append(span)
    return found


def seconds(span) -> tuple[float, float]:
    return span.start_time / 1e9 - 1_000_000, span.end_time / 1e9 - 1_000_000


def test_a_run_is_a_trace_with_a_span_for_every_try_of_a_node() -> None:
    found = spans_of(*notices_of_a_run())
    assert {name: len(spans) for name, spans in found.items()} == {
        "run digits": 1,
        "ExampleGen": 1,
        "Trainer": 2,
        "Pusher": 1,
    }
    (root,) = found["run digits"]
    assert seconds(root) == (0, 60)
    assert dict(root.attributes) == {
        "headrace.experiment": "digits",
        "headrace.run": RUN,
        "headrace.state": "complete",
        "headrace.accuracy": 0.9,
        "headrace.version": "3",
    }
    nodes = [span for name, spans in found.items() if name != "run digits" for span in spans]
    assert {span.parent.span_id for span in nodes} == {root.context.span_id}
    assert {span.context.trace_id for span in nodes} == {root.context.trace_id}
    first, second = found["Trainer"]
    assert (seconds(first), seconds(second)) == ((2, 12), (15, 55))
    assert [span.attributes["headrace.try"] for span in (first, second)] == [1, 2]
    assert (first.status.status_code.name, first.status.description) == ("ERROR", "Node Trainer crashed")
    assert first.attributes["error.type"] == "crash"
    assert second.status.status_code.name == "UNSET"
    assert found["ExampleGen"][0].attributes["headrace.state"] == "cached"


def test_a_failed_run_is_an_error() -> None:
    found = spans_of(*notices_of_a_run("failed"))
    (root,), (pusher,) = found["run digits"], found["Pusher"]
    assert (root.status.status_code.name, root.status.description) == ("ERROR", "Node Pusher failed: OSError")
    assert pusher.attributes["error.type"] == "OSError"


def test_what_a_killed_run_left_open_is_ended_as_an_error() -> None:
    notices = notices_of_a_run()
    found = spans_of(*notices[:-2])
    for name in ("run digits", "Pusher"):
        (span,) = found[name]
        assert span.status.description == "the program ended before it", name


def test_the_caller_may_be_the_parent() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    (root,) = spans_of(*notices_of_a_run(), TRACEPARENT=parent)["run digits"]
    assert f"{root.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{root.parent.span_id:016x}" == "b7ad6b7169203331"


def test_a_round_holds_its_runs() -> None:
    about = {"experiment": "digits", "round": "span-1v0", "reason": "new: span 1", "attempt": 1}
    ended = {**about, "outcome": "failed", "detail": "no", "version": None, "run": RUN, "seconds": 70.0}
    found = spans_of(
        Notice("retraining.round_begun", "", 999_999.0, facts=about),
        *notices_of_a_run(),
        Notice("retraining.round_ended", "", 1_000_069.0, facts=ended),
    )
    (whole,), (root,) = found["retrain digits"], found["run digits"]
    assert root.parent.span_id == whole.context.span_id
    assert seconds(whole) == (-1, 69)
    assert (whole.status.description, whole.attributes["headrace.outcome"]) == ("no", "failed")


def test_resources_are_ours_unless_named_otherwise(monkeypatch) -> None:
    (root,) = spans_of(*notices_of_a_run())["run digits"]
    assert root.resource.attributes["service.name"] == "headrace"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=lab")
    (root,) = spans_of(*notices_of_a_run())["run digits"]
    assert root.resource.attributes["service.name"] == "nightly"
    assert root.resource.attributes["deployment.environment.name"] == "lab"


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, False),
        ({"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, False),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:4318"}, False),
    ],
)
def test_variables_say_whether(environment: dict[str, str], wanted: bool) -> None:
    assert traces.wanted(environment) is wanted


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"OTEL_TRACES_EXPORTER": "smoke-signals"}, "OTEL_TRACES_EXPORTER"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "pigeon"}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
    ],
)
def test_an_exporter_that_is_not_there_is_an_error(environment: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        traces.exporter(environment)
    assert caught.value.place == named
    assert caught.value.remedy


def test_exporters_are_found_by_name() -> None:
    assert type(traces.exporter({})).__name__ == "OTLPSpanExporter"
    assert type(traces.exporter({"OTEL_TRACES_EXPORTER": "console"})).__name__ == "ConsoleSpanExporter"

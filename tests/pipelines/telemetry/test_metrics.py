"""Metrics: their values, and their names by Prometheus' conventions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from prometheus_client import disable_created_metrics, enable_created_metrics, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.telemetry.metrics import Metrics
from pipelines.telemetry.notices import Notice
from tests.pipelines.telemetry.notices import notices_of_a_run

UNITS = ("_seconds", "_ratio", "_bytes")


@pytest.fixture(autouse=True)
def no_created_series() -> Iterator[None]:
    """As in the process that serves them."""
    disable_created_metrics()
    yield
    enable_created_metrics()


def page(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = generate_latest(metrics.registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return page(metrics).get((f"headrace_{name}", tuple(sorted(labels.items()))))


def counted(*notices: Notice) -> Metrics:
    metrics = Metrics("1.2.3")
    for notice in notices:
        metrics.take(notice)
    return metrics


def test_a_run_and_its_nodes_are_counted() -> None:
    notices = notices_of_a_run()
    metrics = counted(*notices, *notices_of_a_run("failed"))
    assert value(metrics, "runs_total", experiment="digits", state="complete") == 1
    assert value(metrics, "runs_total", experiment="digits", state="failed") == 1
    assert value(metrics, "run_duration_seconds_sum", experiment="digits") == 120
    assert value(metrics, "run_duration_seconds_bucket", experiment="digits", le="30.0") == 0
    assert value(metrics, "run_duration_seconds_bucket", experiment="digits", le="60.0") == 2
    assert value(metrics, "runs_in_progress", experiment="digits") == 0
    ended = value(metrics, "run_last_end_timestamp_seconds", experiment="digits", state="complete")
    assert ended == 1_000_060
    assert value(metrics, "run_accuracy_ratio", experiment="digits") == 0.9
    assert value(metrics, "model_version_in_service", experiment="digits") == 3
    by_state = {
        state: value(metrics, "node_executions_total", experiment="digits", node="Trainer", state=state)
        for state in ("complete", "failed", "cached")
    }
    assert by_state == {"complete": 2, "failed": 2, "cached": None}
    assert value(metrics, "node_retries_total", experiment="digits", node="Trainer") == 2
    # Two tries of each run; what came from the cache has no duration.
    assert value(metrics, "node_duration_seconds_sum", experiment="digits", node="Trainer") == 100
    assert value(metrics, "node_duration_seconds_count", experiment="digits", node="ExampleGen") is None
    assert value(metrics, "build_info", version="1.2.3") == 1


def test_what_goes_on_is_seen() -> None:
    notices = notices_of_a_run()
    middle = next(place for place, notice in enumerate(notices) if notice.facts.get("node") == "Pusher")
    metrics = counted(*notices[: middle + 1])
    assert value(metrics, "runs_in_progress", experiment="digits") == 1
    assert value(metrics, "nodes_in_progress", experiment="digits", node="Pusher") == 1
    assert value(metrics, "nodes_in_progress", experiment="digits", node="Trainer") == 0


def test_a_metric_that_was_not_measured_keeps_its_last_value() -> None:
    metrics = counted(*notices_of_a_run())
    last = notices_of_a_run()[-1]
    unmeasured = {**last.facts, "accuracy": None, "in_service": None}
    metrics.take(Notice(last.event, last.message, last.at, facts=unmeasured))
    assert value(metrics, "run_accuracy_ratio", experiment="digits") == 0.9


def test_names_follow_the_conventions() -> None:
    """As `promtool check metrics` would have it: prefix, base units, _total, help; labels in snake case."""
    metrics = counted(*notices_of_a_run())
    families = list(text_string_to_metric_families(generate_latest(metrics.registry).decode()))
    assert len(families) > 20
    for family in families:
        assert re.fullmatch(r"headrace_[a-z][a-z_]*[a-z]", family.name), family.name
        assert family.documentation.endswith("."), family.name
        assert not re.search(r"_(ms|minutes|hours|percent|counter|gauge|total)$", family.name), family.name
        if family.type == "histogram":
            assert family.name.endswith(UNITS), family.name
        for sample in family.samples:
            assert (family.type == "counter") == sample.name.endswith("_total"), sample.name
            assert all(re.fullmatch(r"[a-z_]+", label) for label in sample.labels)

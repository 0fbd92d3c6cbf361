"""Counts notices, under Prometheus' naming conventions.

metrics = Metrics(version="0.1.0")
metrics.take(notice)
start_http_server(9400, "127.0.0.1", metrics.registry)

Counters begin at nothing with the process, as Prometheus expects of them;
gauges of retraining are set anew from the workspace at every look.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pipelines.runners.events import CACHED, SKIPPED
from pipelines.telemetry.notices import Notice

_NODE_S = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 12 * 3600)
_RUN_S = (5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600)


class Metrics:
    """Metrics of one command, in a registry of their own."""

    def __init__(self, version: str) -> None:
        self.registry = CollectorRegistry()
        self._make_for_runs()
        self._make_for_retraining()
        self._gauge("build_info", "Version of Headrace; always 1.", "version").labels(version).set(1)
        self._handlers = {
            "run.begun": self._run_begun,
            "run.ended": self._run_ended,
            "node.begun": self._node_begun,
            "node.ended": self._node_ended,
            "node.retrying": self._node_retrying,
            "retraining.looked": self._looked,
            "retraining.round_begun": self._round_begun,
            "retraining.round_ended": self._round_ended,
            "retraining.notification_failed": self._notification_failed,
        }

    def take(self, notice: Notice) -> None:
        """Counts a notice; those that no metric is about are passed over."""
        handler = self._handlers.get(notice.event)
        if handler is not None:
            handler(notice.facts, notice.at)

    def close(self) -> bool:
        """Nothing is left to be done."""
        return True

    def _make_for_runs(self) -> None:
        self._runs = self._counter("runs", "Runs that ended, by how.", "experiment", "state")
        self._run_s = self._histogram("run_duration_seconds", "Of runs, wall time.", _RUN_S, "experiment")
        self._running = self._gauge("runs_in_progress", "Runs that are going on.", "experiment")
        self._run_at = self._gauge(
            "run_last_end_timestamp_seconds", "When a run last ended so.", "experiment", "state"
        )
        self._accuracy = self._gauge(
            "run_accuracy_ratio", "Of the last run that was evaluated, on its test split.", "experiment"
        )
        self._error = self._gauge(
            "run_mean_absolute_error", "Of the last regression, in its label's unit.", "experiment"
        )
        self._nodes = self._counter("node_executions", "Nodes, by how.", "experiment", "node", "state")
        self._node_s = self._histogram(
            "node_duration_seconds", "Of nodes that ran, wall time.", _NODE_S, "experiment", "node"
        )
        self._retries = self._counter("node_retries", "Further tries of a node.", "experiment", "node")
        self._node_running = self._gauge(
            "nodes_in_progress", "Whether a node is running.", "experiment", "node"
        )
        self._in_service = self._gauge(
            "model_version_in_service", "Version in service; 0 for none.", "experiment"
        )

    def _make_for_retraining(self) -> None:
        self._rounds = self._counter(
            "retraining_rounds", "Rounds that ended, by outcome.", "experiment", "outcome"
        )
        self._round_s = self._histogram(
            "retraining_round_duration_seconds", "Of rounds, their watch included.", _RUN_S, "experiment"
        )
        self._round_running = self._gauge(
            "retraining_rounds_in_progress", "Rounds that are going on.", "experiment"
        )
        self._round_at = self._gauge(
            "retraining_last_round_timestamp_seconds", "When one last ended so.", "experiment", "outcome"
        )
        self._failures = self._gauge(
            "retraining_consecutive_failures", "Rounds that failed in a row.", "experiment"
        )
        self._stopped = self._gauge(
            "retraining_stopped", "1 where so many failed in a row that no more are begun.", "experiment"
        )
        self._look_at = self._gauge(
            "retraining_last_look_timestamp_seconds", "When it last decided what to do.", "experiment"
        )
        self._next_at = self._gauge(
            "retraining_next_look_timestamp_seconds", "When it will, at the latest.", "experiment"
        )
        self._unheard = self._counter(
            "retraining_notification_failures", "Attempts to notify that failed.", "experiment"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, namespace="headrace", registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, namespace="headrace", registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, labels, namespace="headrace", registry=self.registry, buckets=buckets)

    def _run_begun(self, facts: Mapping[str, Any], at: float) -> None:
        self._running.labels(facts["experiment"]).inc()

    def _run_ended(self, facts: Mapping[str, Any], at: float) -> None:
        experiment, state = facts["experiment"], facts["state"]
        self._runs.labels(experiment, state).inc()
        self._run_s.labels(experiment).observe(facts["seconds"])
        self._running.labels(experiment).dec()
        self._run_at.labels(experiment, state).set(at)
        for gauge, key in (
            (self._accuracy, "accuracy"),
            (self._error, "mean_absolute_error"),
            (self._in_service, "in_service"),
        ):
            if facts[key] is not None:
                gauge.labels(experiment).set(float(facts[key]))

    def _node_begun(self, facts: Mapping[str, Any], at: float) -> None:
        self._node_running.labels(facts["experiment"], facts["node"]).set(1)

    def _node_ended(self, facts: Mapping[str, Any], at: float) -> None:
        place = (facts["experiment"], facts["node"])
        self._nodes.labels(*place, facts["state"]).inc()
        self._node_running.labels(*place).set(0)
        if facts["seconds"] is not None and facts["state"] not in (CACHED, SKIPPED):
            self._node_s.labels(*place).observe(facts["seconds"])

    def _node_retrying(self, facts: Mapping[str, Any], at: float) -> None:
        self._retries.labels(facts["experiment"], facts["node"]).inc()

    def _looked(self, facts: Mapping[str, Any], at: float) -> None:
        experiment = facts["experiment"]
        self._look_at.labels(experiment).set(at)
        self._next_at.labels(experiment).set(max(facts["until"], at))
        self._failures.labels(experiment).set(facts["failures"])
        self._stopped.labels(experiment).set(facts["stopped"])
        self._in_service.labels(experiment).set(facts["in_service"])

    def _round_begun(self, facts: Mapping[str, Any], at: float) -> None:
        self._round_running.labels(facts["experiment"]).set(1)

    def _round_ended(self, facts: Mapping[str, Any], at: float) -> None:
        experiment, outcome = facts["experiment"], facts["outcome"]
        self._round_running.labels(experiment).set(0)
        self._rounds.labels(experiment, outcome).inc()
        self._round_at.labels(experiment, outcome).set(at)
        if facts["seconds"] is not None:
            self._round_s.labels(experiment).observe(facts["seconds"])

    def _notification_failed(self, facts: Mapping[str, Any], at: float) -> None:
        self._unheard.labels(facts["experiment"]).inc()

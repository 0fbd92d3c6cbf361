"""Counts and times requests, under TensorFlow Serving's metric names."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest

from components.serving.server.status import as_request_error

_BUCKETS_US = tuple(10 * 1.8**power for power in range(33))
"""TensorFlow Serving's: 10 microseconds to about 26 minutes."""

_GIVEN_UP = {"REST": "DEADLINE_EXCEEDED"}
"""Entry point -> status of a request that was given up; by REST only our own limit on its time does that."""


class Metrics:
    """Counters of one server; each has a registry of its own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        # A gauge, since a Counter's name would get the suffix `_total` and
        # existing dashboards would not find it; it only grows.
        self._count = Gauge(
            ":tensorflow:serving:request_count",
            "Requests by model and status.",
            ("model_name", "status"),
            registry=self._registry,
        )
        self._latency = Histogram(
            ":tensorflow:serving:request_latency",
            "Time to answer a request, in microseconds.",
            ("model_name", "API", "entrypoint"),
            buckets=_BUCKETS_US,
            registry=self._registry,
        )

    @contextlib.contextmanager
    def observe(self, model: str, method: str, entrypoint: str) -> Iterator[None]:
        """Counts and times the request that the block answers; it may raise."""
        began = time.perf_counter()
        try:
            yield
        except asyncio.CancelledError:
            # By our own limit on a request's time, or by a client that gave it up.
            self._count.labels(model, _GIVEN_UP.get(entrypoint, "CANCELLED")).inc()
            raise
        except Exception as error:
            self._count.labels(model, as_request_error(error).code.name).inc()
            raise
        self._count.labels(model, "OK").inc()
        elapsed_us = 1e6 * (time.perf_counter() - began)
        self._latency.labels(model, method, entrypoint).observe(elapsed_us)

    def page(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)

"""The process that serves metrics and sends traces: over real sockets on loopback."""

from __future__ import annotations

import os
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pipelines.errors import ConfigError
from pipelines.telemetry.process import Settings, Watcher, watcher
from tests.pipelines.telemetry.notices import notices_of_a_run
from tests.waiting import wait_until


class Collector(BaseHTTPRequestHandler):
    """Takes spans by OTLP over HTTP."""

    spans: list[tuple[str, str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend((self.path, span.name) for span in scope.spans)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        return None


@pytest.fixture
def collector(monkeypatch) -> Iterator[type[Collector]]:
    Collector.spans = []
    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield Collector
    server.shutdown()
    thread.join()
    server.server_close()


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def test_metrics_are_served_on_loopback_while_it_runs(tmp_path) -> None:
    with watcher(Settings(metrics=("127.0.0.1", 0)), tmp_path / "log") as made:
        assert made is not None
        assert made.url.startswith("http://127.0.0.1:")
        for notice in notices_of_a_run():
            made.tell(notice)
        wanted = 'headrace_runs_total{experiment="digits",state="complete"} 1.0'
        wait_until(lambda: wanted in fetched(made.url), seconds=20)
    assert made.lost == 0
    with pytest.raises(OSError, match="refused"):
        fetched(made.url)


def test_spans_are_sent_to_a_collector(tmp_path, collector) -> None:
    with watcher(Settings(traced=True), tmp_path / "log") as made:
        assert made is not None
        for notice in notices_of_a_run():
            made.tell(notice)
    assert made.lost == 0, (tmp_path / "log").read_text()
    assert {path for path, _ in collector.spans} == {"/v1/traces"}
    assert sorted(name for _, name in collector.spans) == [
        "ExampleGen",
        "Pusher",
        "Trainer",
        "Trainer",
        "run digits",
    ]


def test_spans_that_no_collector_took_are_told(tmp_path, monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with watcher(Settings(traced=True), tmp_path / "log") as made:
        assert made is not None
        for notice in notices_of_a_run():
            made.tell(notice)
    assert made.lost


def test_a_program_that_is_killed_has_its_spans_sent(tmp_path, collector) -> None:
    pid = os.fork()
    if not pid:
        made = Watcher(Settings(traced=True), tmp_path / "log")
        for notice in notices_of_a_run()[:-2]:
            made.tell(notice)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    wait_until(lambda: len(collector.spans) == 5, seconds=30)


def test_a_port_that_is_taken_is_an_error(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            Watcher(Settings(metrics=("127.0.0.1", port)), tmp_path / "log")
    assert caught.value.place == f"127.0.0.1:{port}"
    assert "--metrics-port" in caught.value.remedy


def test_an_exporter_that_is_not_there_is_an_error(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "smoke-signals")
    with pytest.raises(ConfigError, match="smoke-signals"):
        Watcher(Settings(traced=True), tmp_path / "log")


def test_a_process_that_died_is_not_waited_for(tmp_path) -> None:
    made = Watcher(Settings(metrics=("127.0.0.1", 0)), tmp_path / "log")
    os.kill(made._pid, signal.SIGKILL)
    for notice in notices_of_a_run():
        made.tell(notice)
    assert not made.close()


def test_nothing_asked_for_starts_nothing(tmp_path) -> None:
    with watcher(Settings(), tmp_path / "log") as made:
        assert made is None
    assert not (tmp_path / "log").exists()

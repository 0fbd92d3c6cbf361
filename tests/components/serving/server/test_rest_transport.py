"""How REST requests and answers travel: compression, limits, queues, time limits, headers."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import bombs
from tests.components.serving.server.running_server import Clients, error_of, in_thread


def bytes_as_json(value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode()}


def test_gzip_bodies(server: Clients) -> None:
    body = gzip.compress(b'{"instances": [[1.0]]}')
    response = server.post("half:predict", body, headers={"Content-Encoding": "gzip"})
    assert response.json() == {"predictions": [[3.5]]}


@pytest.mark.parametrize("body", [b'{"instances": [[1.0]]}', gzip.compress(b'{"instances": [[1.0]]}')[:-10]])
def test_bodies_that_are_no_gzip(server: Clients, body: bytes) -> None:
    response = server.post("half:predict", body, headers={"Content-Encoding": "gzip"})
    assert response.status_code == 400
    assert "gzip" in error_of(response)


@pytest.mark.parametrize("kind", bombs.BOMBS)
def test_images_beyond_the_limit(server: Clients, kind: str) -> None:
    instances = ["plain", bytes_as_json(bombs.BOMBS[kind])]
    response = server.post("kinds:predict", {"signature_name": "texts", "instances": instances})
    assert response.status_code == 400
    assert "pixels" in error_of(response)
    whole = ["plain", bytes_as_json(bombs.png(40, 30))]
    assert server.post("kinds:predict", {"signature_name": "texts", "instances": whole}).status_code == 200


def test_bodies_beyond_the_limit(server: Clients) -> None:
    body = json.dumps({"instances": [[1.0]], "padding": "x" * (1 << 20)})
    for response in (
        server.post("half:predict", body),
        server.post("half:predict", body, headers={"Transfer-Encoding": "chunked"}),
        server.post("half:predict", gzip.compress(body.encode()), headers={"Content-Encoding": "gzip"}),
    ):
        assert response.status_code == 413
        assert "larger than 1048576 bytes" in error_of(response)
    assert server.post("half:predict", {"instances": [[1.0]]}).status_code == 200


def test_large_bodies_below_the_limit(server: Clients) -> None:
    values = [[float(number)] for number in range(20_000)]
    answers = server.post("half:predict", {"instances": values}).json()["predictions"]
    assert answers == [[number / 2 + 3] for number in range(20_000)]


def test_cors(server: Clients) -> None:
    response = server.http.get("/v1/models/half", headers={"Origin": "http://example.com"})
    assert response.headers["access-control-allow-origin"] == "*"
    asked = {"Origin": "http://example.com", "Access-Control-Request-Method": "POST"}
    response = server.http.options("/v1/models/half:predict", headers=asked)
    assert response.status_code == 200
    assert "POST" in response.headers["access-control-allow-methods"]


def test_metrics_page(server: Clients) -> None:
    server.post("half:predict", {"instances": [[1.0]]})
    server.post("never-heard-of:predict", {"instances": [[1.0]]})
    page = server.http.get("/monitoring/prometheus/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    assert ':tensorflow:serving:request_count{model_name="half",status="OK"}' in page.text
    assert 'request_latency_count{API="Predict",entrypoint="REST",model_name="half"}' in page.text
    assert "never-heard-of" not in page.text


def test_slow_senders_and_slow_models_are_ended(made: Path, tmp_path: Path) -> None:
    monitoring = tmp_path / "monitoring.config"
    monitoring.write_text("prometheus_config { enable: true }")
    with (
        in_thread(
            model_base_path=str(made / "kinds"),
            model_name="kinds",
            rest_api_timeout_in_ms=300,
            monitoring_config_file=str(monitoring),
        ) as clients,
        socket.create_connection(("127.0.0.1", clients.rest_port)) as connection,
    ):
        connection.sendall(
            b"POST /v1/models/kinds:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{"
        )
        answer = connection.recv(1000)
        assert b"504 Gateway Timeout" in answer
        response = clients.post("kinds:predict", {"signature_name": "slow", "instances": [3000]})
        assert response.status_code == 504
        assert "took longer than 300 ms" in error_of(response)
        began = time.monotonic()
        assert clients.get("kinds").status_code == 200
        assert time.monotonic() - began < 5
        # The model's request counts as failed, so that a watch sees a version that hangs; the sender's not.
        page = clients.http.get("/monitoring/prometheus/metrics").text
        count = ':tensorflow:serving:request_count{model_name="kinds",status="DEADLINE_EXCEEDED"}'
        assert f"{count} 1.0" in page


def test_small_answers_do_not_wait_for_acknowledgements(server: Clients) -> None:
    times = []
    for _ in range(15):
        began = time.perf_counter()
        server.post("half:predict", {"instances": [[1.0]]})
        times.append(time.perf_counter() - began)
    # With Nagle's algorithm every one of them would take 40 ms.
    assert sorted(times)[7] < 0.035


def test_a_full_queue_is_429(made: Path) -> None:
    body = {"signature_name": "slow", "instances": [100]}
    with in_thread(model_root=str(made), max_queued_requests=1) as clients, ThreadPoolExecutor(4) as pool:
        responses = list(pool.map(lambda _: clients.post("kinds:predict", body), range(4)))
        assert {response.status_code for response in responses} == {200, 429}
        assert "Too many requests" in error_of(next(item for item in responses if item.status_code == 429))
        assert clients.post("kinds:predict", body).status_code == 200


def test_metrics_and_cors_are_off_by_default(made: Path, tmp_path: Path) -> None:
    with in_thread(model_base_path=str(made / "half"), model_name="half") as clients:
        assert clients.http.get("/monitoring/prometheus/metrics").status_code == 404
        response = clients.http.get("/v1/models/half", headers={"Origin": "http://example.com"})
        assert "access-control-allow-origin" not in response.headers
    config = tmp_path / "monitoring.config"
    config.write_text('prometheus_config { enable: true path: "/metrics" }')
    with in_thread(model_base_path=str(made / "half"), monitoring_config_file=str(config)) as clients:
        assert clients.http.get("/metrics").status_code == 200

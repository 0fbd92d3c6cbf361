"""The embedded server against direct calls of the same SavedModel in one process.

    python -m bench.serving [--quick]

An image classifier (MobileNet 0.25, 128 x 128, random weights) takes one JPEG a
request: one client after the other, and 32 at once, by gRPC and REST, with and
without batching. The clients share the machine with the server, as the direct
calls do not.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import Figure, interleaved, print_table, report
from bench.load import Timing, timed_in_threads

_CLIENTS = 32
_START_SECONDS = 120
_ENVIRONMENT = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
_BATCHING = "max_batch_size { value: 32 } batch_timeout_micros { value: 0 } num_batch_threads { value: 2 }"


@dataclass(frozen=True)
class Effort:
    """How much is measured: rounds, and requests of each kind in a round."""

    rounds: int
    sequential: int
    concurrent: int


@dataclass(frozen=True)
class Result:
    """One load in one round."""

    per_second: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, timing: Timing) -> Result:
        p50, p99 = np.percentile(timing["latencies_s"], [50, 99]) * 1000
        return cls(len(timing["latencies_s"]) / timing["total_s"], float(p50), float(p99))


def build_model(folder: Path) -> None:
    """Writes a SavedModel with the signature `predict_image`: `image_bytes` (B,) to `scores` (B, 10)."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    network = keras.applications.MobileNet((128, 128, 3), 0.25, weights=None, classes=10)
    module = tf.Module()
    module.variables_of_network = [variable.value for variable in network.variables]

    def decode(image: Any) -> Any:
        return tf.image.resize(tf.io.decode_jpeg(image, channels=3), (128, 128)) / 255.0

    def predict_image(image_bytes: Any) -> Any:
        images = tf.map_fn(decode, image_bytes, fn_output_signature=tf.TensorSpec((128, 128, 3), tf.float32))
        return {"scores": network(images, training=False)}

    traced = tf.function(predict_image, input_signature=[tf.TensorSpec([None], tf.string, "image_bytes")])
    tf.saved_model.save(module, str(folder), signatures={"predict_image": traced})


def build_image() -> bytes:
    """A JPEG of 160 x 160 pixels, about 6 kB."""
    from PIL import Image

    grid = np.linspace(0, 4 * np.pi, 160)
    waves = np.stack([np.sin(grid[:, None] * k) * np.cos(grid[None] * k) for k in (1, 2, 3)], axis=-1)
    buffer = io.BytesIO()
    Image.fromarray((127 * (waves + 1)).astype(np.uint8)).save(buffer, format="JPEG", quality=90)
    return buffer.getvalue()


class Direct:
    """A process that calls the model without a server."""

    def __init__(self, model: Path, image: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.direct_calls", str(model), str(image)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=_ENVIRONMENT,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def measure(self, clients: int, requests: int) -> Result:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{clients} {requests}\n")
        self._process.stdin.flush()
        return Result.of(json.loads(self._line()))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class Server:
    """A server process, and loads on it."""

    def __init__(self, base_path: Path, image: bytes, *flags: str) -> None:
        self._port, self._rest_port = _free_port(), _free_port()
        self._grpc_body, self._rest_body = _grpc_request(image), _rest_request(image)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "components.serving.server", "--model_name=m"),
                *(f"--model_base_path={base_path}", f"--port={self._port}"),
                *(f"--rest_api_port={self._rest_port}", *flags),
            ],
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
        )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                return self._rest_call(http.client.HTTPConnection("127.0.0.1", self._rest_port))
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.1)

    def _rest_call(self, connection: http.client.HTTPConnection) -> None:
        connection.request("POST", "/v1/models/m:predict", self._rest_body)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(body.decode())

    def by_rest(self, clients: int, requests: int) -> Result:
        connections = [http.client.HTTPConnection("127.0.0.1", self._rest_port) for _ in range(clients)]
        calls: list[Callable[[], object]] = [lambda c=c: self._rest_call(c) for c in connections]  # type: ignore[misc]
        try:
            return Result.of(timed_in_threads(calls, requests))
        finally:
            for connection in connections:
                connection.close()

    def by_grpc(self, clients: int, requests: int) -> Result:
        import grpc

        with grpc.insecure_channel(f"127.0.0.1:{self._port}") as channel:
            # Bytes in, bytes out: what a client does with its answer is not the server's time.
            predict = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
            return Result.of(timed_in_threads([lambda: predict(self._grpc_body)] * clients, requests))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)


def _grpc_request(image: bytes) -> bytes:
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "m", "predict_image"
    request.inputs["image_bytes"].CopyFrom(tf.make_tensor_proto([image]))
    return bytes(request.SerializeToString())


def _rest_request(image: bytes) -> bytes:
    body = {"signature_name": "predict_image", "instances": [{"b64": base64.b64encode(image).decode()}]}
    return json.dumps(body).encode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def _prepared() -> Iterator[tuple[Direct, Server, Server]]:
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        image = build_image()
        (folder / "image.jpg").write_bytes(image)
        build_model(folder / "m" / "1")
        (folder / "batching.config").write_text(_BATCHING)
        direct = Direct(folder / "m" / "1", folder / "image.jpg")
        stack.callback(direct.close)
        plain = Server(folder / "m", image)
        stack.callback(plain.close)
        batching = ("--enable_batching", f"--batching_parameters_file={folder / 'batching.config'}")
        batched = Server(folder / "m", image, *batching)
        stack.callback(batched.close)
        yield direct, plain, batched


def measure(effort: Effort) -> dict[str, list[Result]]:
    """Load -> its result in each round."""
    with _prepared() as (direct, plain, batched):
        one, many = (1, effort.sequential), (_CLIENTS, effort.concurrent)
        return interleaved(
            effort.rounds,
            {
                "direct, 1": lambda: direct.measure(*one),
                "gRPC, 1": lambda: plain.by_grpc(*one),
                "REST, 1": lambda: plain.by_rest(*one),
                "direct, 32": lambda: direct.measure(*many),
                "gRPC, 32": lambda: plain.by_grpc(*many),
                "REST, 32": lambda: plain.by_rest(*many),
                "gRPC, 32, batching": lambda: batched.by_grpc(*many),
                "REST, 32, batching": lambda: batched.by_rest(*many),
            },
        )


def figures(results: Mapping[str, Sequence[Result]]) -> list[Figure]:
    """Throughput against direct calls from 32 threads; p99 against p50 of 32 gRPC clients."""

    def rates(load: str) -> list[float]:
        return [item.per_second for item in results[load]]

    grpc = results["gRPC, 32"]
    return [
        Figure.of("grpc_concurrent_vs_direct", rates("gRPC, 32"), rates("direct, 32"), "1/s", ">= 0.8"),
        Figure.of("rest_concurrent_vs_direct", rates("REST, 32"), rates("direct, 32"), "1/s", ">= 0.8"),
        Figure.of(
            "p99_over_p50", [item.p99_ms for item in grpc], [item.p50_ms for item in grpc], "ms", "<= 2"
        ),
        Figure.of(
            "grpc_batching_vs_direct", rates("gRPC, 32, batching"), rates("direct, 32"), "1/s", ">= 0.8"
        ),
        Figure.of(
            "rest_batching_vs_direct", rates("REST, 32, batching"), rates("direct, 32"), "1/s", ">= 0.8"
        ),
    ]


def main() -> None:
    """Measures, prints, writes bench/results/serving.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--quick", action="store_true", help="Fewer requests and rounds: rough figures in a minute."
    )
    quick = parser.parse_args().quick
    results = measure(Effort(3, 50, 300) if quick else Effort(7, 200, 1500))
    print_table(
        "Medians of the rounds; load and number of clients",
        ("load", "requests/s", "p50 ms", "p99 ms"),
        [
            (load, *(f"{np.median([getattr(item, name) for item in rounds]):.1f}" for name in _COLUMNS))
            for load, rounds in results.items()
        ],
    )
    report("serving", figures(results))


_COLUMNS = ("per_second", "p50_ms", "p99_ms")


if __name__ == "__main__":
    main()

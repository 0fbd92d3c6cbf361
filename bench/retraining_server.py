"""The model server of the retraining simulation, under light load; a process, and so is its client.

server = Server(folder, scratch)
server.start(request)               # loads what is in the folder; may be nothing yet
server.kill()                       # and starts it again
server.predictions(examples)        # what the version in service says
"""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from tests.components.serving.server.running_server import free_ports

MODEL = "tips"
_START_S = 180.0


@dataclass
class Server:
    """The embedded server, and a client that never rests.

    Attributes:
        folder: the serving root.
        scratch: for logs, the client's counts, and the ports, which stay the same.
    """

    folder: Path
    scratch: Path
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scratch.mkdir(exist_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = self.scratch / "ports.json"
        if not ports.exists():
            ports.write_text(json.dumps(free_ports()))
        self.port, self.rest_port = json.loads(ports.read_text())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.rest_port}"

    def start(self, request: bytes) -> None:
        """Starts server and client."""
        (self.scratch / "request.pb").write_bytes(request)
        (self.scratch / "up").unlink(missing_ok=True)
        self._run("client", "-m", "bench.steady_client", str(self.scratch), str(self.port))
        self._serve()

    def kill(self) -> None:
        """Kills the server with requests on their way, and starts it again; those are not counted."""
        (self.scratch / "up").unlink(missing_ok=True)
        self._processes["server"].send_signal(signal.SIGKILL)
        self._processes["server"].wait()
        self._serve()
        self.count_from_now()

    def count_from_now(self) -> None:
        """Waits for answers; from then on each that fails counts."""
        before = self.counts()["answers"]
        _wait(lambda: self.counts()["answers"] > before + 2, "the server does not answer", self.scratch)
        (self.scratch / "up").touch()

    @property
    def is_counted(self) -> bool:
        return (self.scratch / "up").exists()

    def counts(self) -> dict[str, int]:
        path = self.scratch / "counts.json"
        nothing = {"asked": 0, "failed": 0, "answers": 0}
        return dict(json.loads(path.read_text())) if path.exists() else nothing

    def predictions(self, examples: Sequence[bytes]) -> list[str]:
        """Classes of serialized Examples, by the REST API."""
        instances = [{"b64": base64.b64encode(example).decode()} for example in examples]
        body = json.dumps({"instances": instances}).encode()
        with urllib.request.urlopen(f"{self.url}/v1/models/{MODEL}:predict", body, timeout=60) as answer:
            found = json.load(answer)["predictions"]
        return [_best(item) for item in found]

    def end(self) -> None:
        for process in self._processes.values():
            process.terminate()
            process.wait()

    def _serve(self) -> None:
        ports = [f"--port={self.port}", f"--rest-port={self.rest_port}"]
        base = [f"--model_base_path={self.folder}", f"--model_name={MODEL}", "--enable_metrics"]
        self._run("server", "-m", "pipelines.cli.main", "serve", *base, *ports)
        _wait(self._is_there, "the server does not start", self.scratch)

    def _is_there(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/monitoring/prometheus/metrics", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _run(self, name: str, *arguments: str) -> None:
        with open(self.scratch / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log)


def _best(prediction: Mapping[str, Any]) -> str:
    scores = prediction["scores"]
    return str(prediction["classes"][scores.index(max(scores))])


def _wait(condition: Callable[[], bool], complaint: str, scratch: Path) -> None:
    deadline = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{complaint}; see {scratch}/server.log")
        time.sleep(0.3)


def request_of(row: Mapping[str, str]) -> Any:
    """A Predict request for one row."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = MODEL, "serving_default"
    request.inputs["examples"].CopyFrom(tf.make_tensor_proto([example(row)]))
    return request


def example(row: Mapping[str, str]) -> bytes:
    """A row as a serialized tf.train.Example."""
    features = {
        "distance": tf.train.Feature(float_list=tf.train.FloatList(value=[float(row["distance"])])),
        "hour": tf.train.Feature(float_list=tf.train.FloatList(value=[float(row["hour"])])),
        "district": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["district"].encode()])),
        "label": tf.train.Feature(bytes_list=tf.train.BytesList(value=[row["label"].encode()])),
    }
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())

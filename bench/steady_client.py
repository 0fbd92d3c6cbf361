"""A client that never rests: python -m bench.steady_client FOLDER PORT

Sends `FOLDER/request.pb` ten times a second while it runs, and keeps
`FOLDER/counts.json`: asked and failed while `FOLDER/up` is there, and answers in
all; and `FOLDER/versions.jsonl`: when another version began to answer. Goes on
with the counts that it finds. In a process of its own, so that the measuring
process has no gRPC threads, which do not survive a fork.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

PAUSE_S = 0.1


def ask(port: int, request: predict_pb2.PredictRequest) -> int:
    """The version that answers with scores; 0 where none does."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        try:
            answer = stub.Predict(request, timeout=30)
        except grpc.RpcError:
            return 0
        return int(answer.model_spec.version.value) if answer.outputs["scores"].float_val else 0


def main(folder: Path, port: int) -> None:
    """Until it is ended."""
    request = predict_pb2.PredictRequest.FromString((folder / "request.pb").read_bytes())
    target = folder / "counts.json"
    counts = json.loads(target.read_text()) if target.exists() else {"asked": 0, "failed": 0, "answers": 0}
    last = 0
    while True:
        time.sleep(PAUSE_S)
        was_up = (folder / "up").exists()
        version = ask(port, request)
        counts["answers"] += version > 0
        if was_up and (folder / "up").exists():
            counts["asked"] += 1
            counts["failed"] += version == 0
        if version and version != last:
            with open(folder / "versions.jsonl", "a") as file:
                file.write(json.dumps({"at": time.time(), "version": version}) + "\n")
            last = version
        scratch = folder / "counts.part"
        scratch.write_text(json.dumps(counts))
        scratch.rename(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

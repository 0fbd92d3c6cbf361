"""A client that never rests: python -m bench.steady_client FOLDER PORT

Sends `FOLDER/request.pb` ten times a second while `FOLDER/up` is there, and
keeps `FOLDER/counts.json`: asked, failed. What fails while `up` is taken away
does not count. In a process of its own, so that the measuring process has no
gRPC threads, which do not survive a fork.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import grpc
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

PAUSE_S = 0.1


def ask(port: int, request: predict_pb2.PredictRequest) -> bool:
    """Whether the server answers with scores."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        try:
            return bool(stub.Predict(request, timeout=30).outputs["scores"].float_val)
        except grpc.RpcError:
            return False


def main(folder: Path, port: int) -> None:
    """Until it is ended."""
    request = predict_pb2.PredictRequest.FromString((folder / "request.pb").read_bytes())
    counts = {"asked": 0, "failed": 0, "answers": 0}
    while True:
        time.sleep(PAUSE_S)
        was_up = (folder / "up").exists()
        ok = ask(port, request)
        counts["answers"] += ok
        if was_up and (folder / "up").exists():
            counts["asked"] += 1
            counts["failed"] += not ok
        scratch = folder / "counts.part"
        scratch.write_text(json.dumps(counts))
        scratch.rename(folder / "counts.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

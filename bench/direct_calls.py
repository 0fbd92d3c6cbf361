"""Calls a SavedModel's signature in this process, as a script without a server would.

python -m bench.direct_calls MODEL IMAGE
Reads `CLIENTS REQUESTS` a line; answers a line of JSON with the latencies and the time of all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import tensorflow as tf

from bench.load import timed_in_threads


def main() -> None:
    """Answers lines until standard input ends."""
    # Kept: a signature does not keep the variables alive that it uses.
    model = tf.saved_model.load(sys.argv[1])
    signature = model.signatures["predict_image"]
    image = Path(sys.argv[2]).read_bytes()

    def call() -> None:
        signature(image_bytes=tf.constant([image]))["scores"].numpy()

    call()
    print("ready", flush=True)
    for line in sys.stdin:
        clients, requests = map(int, line.split())
        print(json.dumps(timed_in_threads([call] * clients, requests)), flush=True)


if __name__ == "__main__":
    main()

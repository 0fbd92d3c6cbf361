"""The process that loads a servable and answers examples, as a server would.

python -m components.infra_validator.worker TASK.json
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from components.serving import examples, runtimes


def main() -> None:
    """Writes `scores.npy`, `classes.json` and `load.json` into the task's folder."""
    task = json.loads(Path(sys.argv[1]).read_text())
    began = time.perf_counter()
    runtime = runtimes.load(task["servable"])
    load_ms = 1000 * (time.perf_counter() - began)
    records = examples.read_split(task["examples"], task["split"], task["count"])
    answer = runtime.predict(records)
    folder = Path(task["folder"])
    np.save(folder / "scores.npy", answer.scores)
    (folder / "classes.json").write_text(json.dumps(answer.classes.tolist()))
    (folder / "load.json").write_text(json.dumps({"load_ms": load_ms}))


if __name__ == "__main__":
    main()

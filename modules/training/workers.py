"""Worker processes on one machine, started and watched by the Trainer.

    if workers.wanted(hparams.train, os.environ):
        workers.run("modules.image.trainer.run_fn", fn_args, hparams.train)
        return

Every worker, the chief too, is a process of its own that calls the same
function with TF_CONFIG set, since TensorFlow can only join a cluster before its
first operation. When one dies, all are ended and started again: they go on
from the last checkpoint. A cluster's own training job does the same.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from modules.errors import TrainingError
from modules.hparams.train import TrainHparams
from modules.training import cluster, devices

_MAX_RESTARTS = 3
_POLL_S = 0.2
_GRACE_S = 30.0
_ERROR_FILE = "error.json"
_PASSED = (
    "train_files", "eval_files", "transform_output", "transform_graph_path", "schema_path",
    "serving_model_dir", "eval_model_dir", "model_run_dir", "base_model", "custom_config", "hyperparameters",
)  # fmt: skip


def wanted(hparams: TrainHparams, environment: Mapping[str, str]) -> bool:
    """Whether this process is to start workers, being none itself.

    One worker, too, where a setting holds only from TensorFlow's start on.
    """
    if environment.get(cluster.VARIABLE):
        return False
    return hparams.local_workers > 1 or devices.needs_own_process(hparams)


def run(function: str, fn_args: Any, hparams: TrainHparams) -> None:
    """Calls `function(fn_args)` in `hparams.local_workers` processes and waits for them.

    Args:
        function: dotted path.
        fn_args: TFX's; only what is JSON-like reaches the workers.
        hparams: number of workers.

    Raises:
        TrainingError: a worker's own, or workers that died again and again.
    """
    folder = Path(fn_args.model_run_dir, "workers")
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / "call.json"
    passed = {name: _plain(getattr(fn_args, name, None)) for name in _PASSED}
    spec.write_text(json.dumps({"function": function, "fn_args": passed}))
    failures = 0
    for restart in range(_MAX_RESTARTS + 1):
        codes = _one_round(spec, hparams, folder, restart)
        if not any(codes):
            return
        # One that was killed may go well the next time; one that raised hardly will.
        failures += 0 if min(codes) < 0 else 1
        if failures > 1:
            break
    raise TrainingError(
        f"Workers died {restart + 1} times; the last time with {_last_line(folder, restart, codes)}",
        place=str(folder),
        remedy="Their logs there end with the reason.",
    )


def _last_line(folder: Path, restart: int, codes: list[int]) -> str:
    """How the first of the failed workers ended."""
    index = next(index for index, code in enumerate(codes) if code)
    lines = (folder / f"worker-{index}-{restart}.log").read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else f"code {codes[index]}"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _one_round(spec: Path, hparams: TrainHparams, folder: Path, restart: int) -> list[int]:
    """Runs all workers once; their exit codes, 0 for those that had to be ended for another."""
    count = hparams.local_workers
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(count)]
    (folder / _ERROR_FILE).unlink(missing_ok=True)
    given = {} if hparams.onednn == "auto" else {devices.ONEDNN: str(int(hparams.onednn == "on"))}
    processes = [
        _start(
            spec,
            {**given, cluster.VARIABLE: cluster.config_json(addresses, index)},
            folder / f"worker-{index}-{restart}.log",
        )
        for index in range(count)
    ]
    try:
        with _forward_sigterm(processes) as told:
            codes = _wait(processes)
    finally:
        _end(processes)
    if told:
        raise SystemExit(128 + signal.SIGTERM)
    error = folder / _ERROR_FILE
    if error.exists():
        raise TrainingError(**json.loads(error.read_text()))
    return codes


def _start(spec: Path, variables: Mapping[str, str], log_path: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        **variables,
        "PYTHONPATH": os.pathsep.join([path for path in sys.path if path]),
    }
    with log_path.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "modules.training.workers", str(spec)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _free_ports(count: int) -> list[int]:
    """Ports that are free now; bound at the same time, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@contextlib.contextmanager
def _forward_sigterm(processes: list[subprocess.Popen[bytes]]) -> Iterator[list[int]]:
    """SIGTERM goes on to all workers, which write a checkpoint; the list tells that it came."""
    told: list[int] = []

    def forward(signum: int, frame: object) -> None:
        told.append(signum)
        for process in processes:
            process.send_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, forward)
    try:
        yield told
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait(processes: list[subprocess.Popen[bytes]]) -> list[int]:
    """Waits until all have ended well, or one has not."""
    while True:
        codes = [process.poll() for process in processes]
        if any(codes) or None not in codes:
            return [code or 0 for code in codes]
        time.sleep(_POLL_S)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Ends what still runs: first politely, since a worker may be writing a checkpoint."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _GRACE_S
    for process in processes:
        try:
            process.wait(max(deadline - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(spec: str) -> None:
    """What a worker does: reads the call and makes it."""
    call = json.loads(Path(spec).read_text())
    module, _, name = call["function"].rpartition(".")
    try:
        getattr(importlib.import_module(module), name)(SimpleNamespace(**call["fn_args"]))
    except TrainingError as error:
        fields = {"headline": error.headline, "place": error.place, "remedy": error.remedy}
        Path(spec).with_name(_ERROR_FILE).write_text(json.dumps(fields))
        raise


if __name__ == "__main__":
    main(sys.argv[1])

"""Other ways to run Beam give the same files and statistics as the default."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.waiting import wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def data_part(headrace, tmp_path_factory):
    """Runs the chain as far as statistics with given Beam options; returns what it wrote."""

    def go(*beam_args: str, settings: Mapping[str, object] = {}) -> tuple[dict[str, bytes], object]:
        workspace = tmp_path_factory.mktemp("beam") / "workspace"
        options = [f"--beam-arg={option}" for option in beam_args]
        options += [f"--set=beam.{key}={value}" for key, value in settings.items()]
        done = headrace("run", "digits", "--workspace", str(workspace), "--to", "StatisticsGen", *options)
        assert done.code == 0, done.err
        root = workspace / "artifacts" / "digits"
        files = sorted((root / "ExampleGen" / "examples").rglob("*.gz"))
        return {path.parent.name: path.read_bytes() for path in files}, _statistics(root)

    return go


def _statistics(root: Path) -> dict[str, tuple[int, ...]]:
    """Per split: examples, and of each feature how many values there are and how many are distinct."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    found = {}
    for path in sorted((root / "StatisticsGen").rglob("FeatureStats.pb")):
        dataset = statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes()).datasets[0]
        counts = [dataset.num_examples]
        for feature in sorted(dataset.features, key=lambda item: item.path.step[0]):
            counts += [feature.string_stats.common_stats.num_non_missing, feature.string_stats.unique]
        found[path.parent.name] = tuple(counts)
    return found


@pytest.fixture(scope="module")
def default(data_part):
    return data_part()


@pytest.fixture
def job_service(tmp_path) -> Iterator[int]:
    """Beam's own job service in a process of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    module = "apache_beam.runners.portability.local_job_service_main"
    with open(tmp_path / "service.log", "w") as log:
        process = subprocess.Popen([sys.executable, "-m", module, "-p", str(port)], stdout=log, stderr=log)

    def listening() -> bool:
        assert process.poll() is None, (tmp_path / "service.log").read_text()
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listening)
    yield port
    process.terminate()
    process.wait(timeout=30)


def test_two_worker_processes(default, data_part) -> None:
    assert data_part("--direct_running_mode=multi_processing", "--direct_num_workers=2") == default


@pytest.fixture
def pool(tmp_path) -> Iterator[int]:
    """Workers as they stand beside a cluster's own processes."""
    module = "components.beam_pool"
    log = tmp_path / "pool.log"
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, "-m", module, "--port", "0"], stdout=file, stderr=file)

    def listening() -> bool:
        assert process.poll() is None, log.read_text()
        return "listening on" in log.read_text()

    wait_until(listening)
    yield int(log.read_text().split("listening on", 1)[1].splitlines()[0].rpartition(":")[2])
    process.terminate()
    process.wait(timeout=30)


def test_a_job_service_with_workers_of_a_pool(default, data_part, job_service: int, pool: int) -> None:
    given = {
        "runner": "portable",
        "job_endpoint": f"localhost:{job_service}",
        "pool": f"localhost:{pool}",
        "parallelism": 2,
    }
    assert data_part(settings=given) == default


@pytest.fixture(scope="module")
def trained(headrace, tmp_path_factory):
    """Trains briefly under a runner; returns the history and every weight."""

    def go(runner: str) -> tuple[dict[str, object], dict[str, object]]:
        import json

        import tensorflow as tf

        workspace = tmp_path_factory.mktemp(runner) / "workspace"
        settings = ("train.epochs=2", "train.deterministic=true")
        done = headrace(
            *("run", "digits", "--workspace", str(workspace), "--to", "Trainer", "--runner", runner),
            *(f"--set={setting}" for setting in settings),
        )
        assert done.code == 0, done.err
        root = workspace / "artifacts" / "digits" / "Trainer"
        history = json.loads(next(root.rglob("history.json")).read_text())["history"]
        reader = tf.train.load_checkpoint(str(next(root.rglob("variables.index")).with_suffix("")))
        names = reader.get_variable_to_shape_map()
        return history, {name: reader.get_tensor(name) for name in names if "VARIABLE_VALUE" in name}

    return go


def test_both_runners_train_the_same_model(trained) -> None:
    """From the same data and settings, in another process layout: float32 rounding is all that differs."""
    import numpy as np

    (local_history, local), (beam_history, other) = trained("local"), trained("beam")
    for metric in ("loss", "val_loss"):
        np.testing.assert_allclose(local_history[metric], beam_history[metric], rtol=1e-5)
    assert set(local) == set(other)
    for name, value in local.items():
        np.testing.assert_allclose(value, other[name], atol=1e-3, err_msg=name)

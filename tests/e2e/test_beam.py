"""Other ways to run Beam give the same files and statistics as the default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests import engines

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


def test_two_worker_processes(default, data_part) -> None:
    assert data_part("--direct_running_mode=multi_processing", "--direct_num_workers=2") == default


@pytest.fixture(scope="module")
def pool(tmp_path_factory) -> Iterator[engines.Pool]:
    with engines.pool(tmp_path_factory.mktemp("pool")) as found:
        yield found


def test_two_workers_of_a_pool(default, data_part, pool) -> None:
    before = len(pool.workers())
    assert data_part(settings={"parallelism": 2, "pool": pool.address}) == default
    assert len(pool.workers()) == before + 4  # two for each of two jobs


def test_a_job_service_with_workers_of_a_pool(default, data_part, pool, tmp_path: Path) -> None:
    before = len(pool.workers())
    with engines.job_service(tmp_path) as endpoint:
        given = {"runner": "portable", "job_endpoint": endpoint, "pool": pool.address}
        assert data_part(settings=given) == default
    assert len(pool.workers()) == before + 2  # one for each of two jobs


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

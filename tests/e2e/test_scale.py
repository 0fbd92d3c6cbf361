"""The taxi data chain on a distributed engine gives what it gives on this machine."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import engines
from tests.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.cluster, pytest.mark.slow]

ENGINES = {"prism": engines.prism, "flink": engines.flink}


@pytest.fixture(scope="module", params=sorted(ENGINES))
def engine(request, tmp_path_factory) -> Iterator[engines.Engine]:
    with ENGINES[request.param](tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture(scope="module")
def local(headrace, tmp_path_factory) -> Path:
    """The workspace of a run on this machine, as far as the Evaluator."""
    workspace = tmp_path_factory.mktemp("local") / "workspace"
    # The model matters not: what is compared is its evaluation here and there.
    done = headrace(
        *("run", "taxi", "--workspace", str(workspace), "--to", "Evaluator"),
        *("--set=train.epochs=1", "--set=rewrite.candidates=[identity]"),
    )
    assert done.code == 0, done.err
    return workspace


@pytest.fixture(scope="module")
def distributed(headrace, engine, tmp_path_factory) -> Path:
    """The workspace of a run on the engine, as far as Transform."""
    workspace = tmp_path_factory.mktemp("engine") / "workspace"
    done = headrace("run", "taxi", "--workspace", str(workspace), "--to", "Transform", *engine.options())
    assert done.code == 0, done.err
    return workspace


def output(workspace: Path, node: str, name: str) -> Path:
    """The newest artifact of a node."""
    versions = (workspace / "artifacts" / "taxi" / node / name).iterdir()
    return max(versions, key=lambda path: int(path.name))


def records(folder: Path) -> list[bytes]:
    import tensorflow as tf

    files = [str(path) for path in sorted(folder.glob("*.gz"))]
    return list(tf.data.TFRecordDataset(files, "GZIP").as_numpy_iterator())


def test_examples_are_the_same_in_the_same_splits(local: Path, distributed: Path) -> None:
    for split in ("train", "validation", "test"):
        first, second = (
            records(output(workspace, "ExampleGen", "examples") / f"Split-{split}")
            for workspace in (local, distributed)
        )
        assert sorted(first) == sorted(second)


def statistics(workspace: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """(split, feature) -> its exact counts, its moments, and what sketches estimate."""
    from tensorflow_metadata.proto.v0 import statistics_pb2

    found: dict[tuple[str, str], dict[str, Any]] = {}
    folder = output(workspace, "StatisticsGen", "statistics")
    for path in sorted(folder.rglob("FeatureStats.pb")):
        (dataset,) = statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes()).datasets
        for feature in dataset.features:
            numbers = feature.num_stats
            common = (numbers if feature.HasField("num_stats") else feature.string_stats).common_stats
            found[path.parent.name, feature.path.step[0]] = {
                "rows": dataset.num_examples,
                "present": common.num_non_missing,
                "missing": common.num_missing,
                "unique": feature.string_stats.unique,
                "frequent": [(item.value, item.frequency) for item in feature.string_stats.top_values],
                "moments": (numbers.mean, numbers.std_dev),
                "range": (numbers.min, numbers.max, numbers.num_zeros),
                "median": numbers.median,
            }
    return found


def test_statistics_are_equal(local: Path, distributed: Path) -> None:
    first, second = statistics(local), statistics(distributed)
    assert first.keys() == second.keys()
    for key, here in first.items():
        there = second[key]
        for exact in ("rows", "present", "missing", "unique", "frequent", "range"):
            assert here[exact] == there[exact], (key, exact)
        # Sums of floating point numbers in another order.
        assert there["moments"] == pytest.approx(here["moments"], rel=1e-9), key
        # A quantile is estimated by sketches, which are merged in another order.
        width = here["range"][1] - here["range"][0]
        assert there["median"] == pytest.approx(here["median"], abs=0.02 * width), key


def test_vocabularies_are_equal(local: Path, distributed: Path) -> None:
    first, second = (output(workspace, "Transform", "transform_graph") for workspace in (local, distributed))
    names = sorted(path.relative_to(first) for path in first.rglob("assets/*"))
    assert names
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def rows(folder: Path) -> np.ndarray:
    """Transformed rows, (N, D) float64; features side by side in the order of their names."""
    import tensorflow as tf

    found = []
    for record in records(folder):
        features = tf.train.Example.FromString(record).features.feature
        lists = [getattr(value, value.WhichOneof("kind")).value for _, value in sorted(features.items())]
        found.append([float(number) for values in lists for number in values])
    return np.asarray(found)


def furthest(first: np.ndarray, second: np.ndarray) -> float:
    """The largest difference between rows of two multisets that are paired off as well as can be.

    Rows pair off only with rows that have the same whole numbers, which are
    categories, buckets and labels.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    whole = [index for index in range(first.shape[1]) if (first[:, index] == first[:, index].round()).all()]
    assert len(whole) > 10
    groups: list[dict[tuple[float, ...], list[np.ndarray]]] = []
    for rows_ in (first, second):
        groups.append(defaultdict(list))
        for row in rows_:
            groups[-1][tuple(row[whole])].append(row)
    assert {key: len(value) for key, value in groups[0].items()} == {
        key: len(value) for key, value in groups[1].items()
    }
    worst = 0.0
    for key, members in groups[0].items():
        costs = cdist(np.asarray(members), np.asarray(groups[1][key]), "chebyshev")
        worst = max(worst, float(costs[linear_sum_assignment(costs)].max()))
    return worst


def test_transformed_examples_are_equal_as_a_multiset(local: Path, distributed: Path) -> None:
    """Up to float32 rounding of means and deviations, which are summed in another order."""
    for split in ("train", "validation"):
        first, second = (
            rows(output(workspace, "Transform", "transformed_examples") / f"Split-{split}")
            for workspace in (local, distributed)
        )
        assert first.shape == second.shape
        assert furthest(first, second) < 1e-3


def metrics(workspace: Path) -> dict[str, float]:
    """Every metric of the newest evaluation, by slice and name."""
    import tensorflow_model_analysis as tfma

    found = {}
    result = tfma.load_eval_result(str(output(workspace, "Evaluator", "evaluation")))
    for slice_key, values in result.slicing_metrics:
        for name, value in values[""][""].items():
            if "doubleValue" in value:
                found[f"{slice_key} {name}"] = float(value["doubleValue"])
    return found


def test_the_evaluation_of_one_model_is_equal(headrace, local: Path, engine) -> None:
    expected = metrics(local)
    done = headrace(
        *("run", "taxi", "--workspace", str(local), "--from", "Evaluator", "--to", "Evaluator", "--no-cache"),
        *("--set=train.epochs=1", "--set=rewrite.candidates=[identity]", *engine.options()),
    )
    assert done.code == 0, done.err
    assert "1 executed" in done.out
    assert metrics(local) == pytest.approx(expected, rel=1e-6)
    assert len(expected) > 3


def test_a_worker_that_is_killed_in_transform_changes_nothing(
    headrace, engine, distributed: Path, tmp_path: Path
) -> None:
    """Prism gives the job up, and the node is tried again; Flink starts a task manager's work elsewhere."""
    workspace = tmp_path / "workspace"
    command = ("run", "taxi", "--workspace", str(workspace), "--to", "Transform")
    half_done = "artifacts/taxi/Transform/transform_graph/*/.temp_path/tftransform_tmp/*/assets/*"

    def kill(pid: int) -> None:
        # The vocabularies are made, and the rows still to be transformed.
        wait_until(lambda: any(workspace.glob(half_done)), seconds=900)
        os.kill(engine.victim(), signal.SIGKILL)

    done = headrace(*command, *engine.options(), meanwhile=kill)
    assert done.code == 0, done.err
    assert engine.task_manager or "retrying" in done.out
    for split in ("train", "validation"):
        first, second = (
            rows(output(folder, "Transform", "transformed_examples") / f"Split-{split}")
            for folder in (distributed, workspace)
        )
        assert furthest(first, second) < 1e-3

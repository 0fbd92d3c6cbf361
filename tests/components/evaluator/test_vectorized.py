"""The vectorised engine against TFMA itself: every metric, slice, plot and verdict."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest

from components.evaluator import predict
from components.evaluator.slices import Column, slices_of
from tests.components.evaluator.test_evaluate import (
    NAMES,
    NUMBER,
    SERVABLE,
    FakeRuntime,
    models_at,
)

DAYS = ["mon", "tue", "wed"]


def test_members_of_slices() -> None:
    """A row is in a slice for each of its values, and in none of a feature that it lacks."""
    batches = [pa.array([["x"], ["y", "x"]]), None, pa.array([None, ["y"]])]
    column = Column.of(batches, [2, 1, 2])
    number = Column.of([pa.array([[1], [2], [1], [1], [2]])], [5])
    assert column.first_of(5).tolist() == [0, 1, -1, -1, 1]
    found = {}
    for members in slices_of([(), ("name",), ("number", "name")], {"name": column, "number": number}, 5):
        for row, code in zip(members.rows.tolist(), members.codes.tolist(), strict=True):
            found.setdefault(members.keys[code], []).append(row)
    assert found == {
        (): [0, 1, 2, 3, 4],
        (("name", "x"),): [0, 1],
        (("name", "y"),): [1, 4],
        (("name", "x"), ("number", 1)): [0],
        (("name", "x"), ("number", 2)): [1],
        (("name", "y"), ("number", 2)): [1, 4],
    }


def random_records(make_example, count: int, seed: int) -> list[bytes]:
    """Rows with scores of two models, some unknown labels, some without a day, some with two."""
    rng = np.random.default_rng(seed)
    records = []
    for number in range(count):
        label = rng.choice([*NAMES, "zebra"], p=[0.5, 0.3, 0.15, 0.05])
        scores = {
            name: rng.dirichlet([2.0 + 3.0 * (other == label) for other in NAMES]).astype(np.float32).tolist()
            for name in ("mine", "other")
        }
        days = [[], [DAYS[number % 3]], [DAYS[number % 3], DAYS[(number + 1) % 3]]][number % 7 % 3]
        day = {"day": days} if days else {}
        records.append(make_example(label=str(label), hour=int(rng.integers(0, 4)), **scores, **day))
    return records


CLASSES = {"binarize": {"class_ids": {"values": [2]}}}
METRICS = [
    {
        "metrics": [
            {
                "class_name": "SparseCategoricalAccuracy",
                "config": json.dumps({"name": "accuracy"}),
                "per_slice_thresholds": [
                    {
                        "slicing_specs": [{}, {"feature_keys": ["hour"]}],
                        "threshold": {
                            "value_threshold": {"lower_bound": 0.85},
                            "change_threshold": {"direction": "HIGHER_IS_BETTER", "absolute": -0.001},
                        },
                    }
                ],
            },
            {"class_name": "ExampleCount"},
            {"class_name": "SparseTopKCategoricalAccuracy", "config": json.dumps({"k": 2})},
            {"class_name": "SparseCategoricalCrossentropy"},
        ]
    },
    {
        **CLASSES,
        "metrics": [{"class_name": name} for name in ("AUC", "Precision", "CalibrationPlot")],
    },
]
SLICES = [{}, {"feature_keys": ["label"]}, {"feature_keys": ["day"]}, {"feature_keys": ["hour", "day"]}]


@pytest.fixture
def results(monkeypatch, tmp_path, make_example, write_tfrecord):
    """Both engines' results by name, as TFMA's loaders read them."""
    import apache_beam as beam
    import tensorflow_model_analysis as tfma

    from components.evaluator import analyze

    monkeypatch.setattr(predict.runtimes, "load", FakeRuntime)
    records = random_records(make_example, 120, seed=3)
    files = [str(write_tfrecord(tmp_path / f"{part}.gz", records[part::2], "GZIP")) for part in range(2)]

    def go(*, baseline: bool):
        names = ["candidate", "baseline"]
        raw = {
            "model_specs": [
                {"name": name, "label_key": "label_id", "is_baseline": name == "baseline"} for name in names
            ],
            "slicing_specs": [*SLICES, {"feature_keys": ["hour"]}],
            "metrics_specs": [{**spec, "model_names": names} for spec in METRICS],
        }
        found = {}
        for engine in ("tfma", "vectorized"):
            config = analyze.parse_config(json.dumps(raw), has_baseline=baseline)
            output = str(tmp_path / engine)
            models = models_at(tmp_path, SERVABLE, baseline=baseline)
            with beam.Pipeline(runner="FnApiRunner") as pipeline:
                analyze.analyze(pipeline, files, models, config, "label", output, engine)
            found[engine] = {
                "metrics": list(tfma.load_metrics(output)),
                "plots": list(tfma.load_plots(output)),
                "validation": tfma.load_validation_result(output),
                "summary": analyze.summarize(output, has_baseline=baseline),
            }
        return found

    return go


def values_of(metrics) -> dict[tuple[str, str], float]:
    """(slice, metric) -> value."""
    return {
        (str(item.slice_key), str(pair.key)): pair.value.double_value.value
        for item in metrics
        for pair in item.metric_keys_and_values
    }


def test_both_engines_say_the_same(results) -> None:
    found = results(baseline=True)
    theirs, ours = (values_of(found[engine]["metrics"]) for engine in ("tfma", "vectorized"))
    assert set(ours) == set(theirs)
    assert len(theirs) > 200
    wrong = {
        key: (value, ours[key])
        for key, value in theirs.items()
        if not (math.isclose(value, ours[key], abs_tol=1e-6) or (math.isnan(value) and math.isnan(ours[key])))
    }
    assert wrong == {}
    validations = [found[engine]["validation"].validation_ok for engine in ("tfma", "vectorized")]
    assert validations == [False, False]
    failures = [sorted(found[engine]["summary"]["failures"]) for engine in ("tfma", "vectorized")]
    assert failures[0] == failures[1] != []
    slices = [{str(item.slice_key) for item in result["plots"]} for result in found.values()]
    assert slices[0] == slices[1] != set()


def test_what_only_tfma_does_is_left_to_it(monkeypatch, tmp_path, make_example, write_tfrecord) -> None:
    import apache_beam as beam

    from components.errors import ServableError
    from components.evaluator import analyze

    monkeypatch.setattr(predict.runtimes, "load", FakeRuntime)
    file = write_tfrecord(tmp_path / "a.gz", random_records(make_example, 20, seed=1), "GZIP")
    raw = json.dumps(
        {
            "model_specs": [{"name": "candidate", "label_key": "label_id"}],
            "slicing_specs": [{}],
            "metrics_specs": [{"metrics": [{"class_name": "MultiClassConfusionMatrixPlot"}]}],
        }
    )
    config = analyze.parse_config(raw, has_baseline=False)
    models = models_at(tmp_path, SERVABLE, baseline=False)
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        used = analyze.analyze(pipeline, [str(file)], models, config, "label", str(tmp_path / "o"), "auto")
    assert used == "tfma"
    pipeline = beam.Pipeline(runner="FnApiRunner")
    with pytest.raises(ServableError, match="does not do the metric '_multi_class_confusion_matrices'"):
        analyze.analyze(pipeline, [str(file)], models, config, "label", str(tmp_path / "p"), "vectorized")


class FakeRegression(FakeRuntime):
    """Answers with the number that stands in the record."""

    def predict(self, raw, signature=None):
        import tensorflow as tf

        from components.serving.runtimes import Answer

        found = [tf.train.Example.FromString(item).features.feature[self._key] for item in raw]
        values = np.array([item.float_list.value[0] for item in found], np.float32)
        return Answer(values, np.zeros((len(raw), 0), object))


def test_errors_of_numbers_are_tfmas(monkeypatch, tmp_path, make_example, write_tfrecord) -> None:
    import apache_beam as beam

    from components.evaluator import analyze
    from pipelines import evaluation
    from pipelines.config import Experiment

    monkeypatch.setattr(predict.runtimes, "load", FakeRegression)
    rng = np.random.default_rng(4)
    rows = [
        {"label": float(label), "mine": float(label + rng.normal()), "other": float(label + 2 * rng.normal())}
        for label in rng.normal(50, 20, 60)
    ]
    file = write_tfrecord(tmp_path / "a.gz", [make_example(**row) for row in rows], "GZIP")
    experiment = Experiment.model_validate(
        {
            "name": "e",
            "data": {"path": "x", "label": "label"},
            "model": {"family": "tabular", "task": "regression"},
            "evaluation": {"max_error": 0.5},
        }
    )
    found = {}
    for engine in ("tfma", "vectorized"):
        config = analyze.parse_config(evaluation.eval_config(experiment), has_baseline=True)
        output = str(tmp_path / engine)
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            models = models_at(tmp_path, NUMBER, baseline=True)
            analyze.analyze(pipeline, [str(file)], models, config, "label", output, engine)
        found[engine] = analyze.summarize(output, has_baseline=True)
    for model in ("candidate", "baseline"):
        theirs, ours = (found[engine]["metrics"][model]["overall"] for engine in ("tfma", "vectorized"))
        assert ours == pytest.approx(theirs, abs=1e-5, rel=1e-6)
        assert {"mean_absolute_error", "mean_squared_error", "example_count"} <= set(ours)
    assert found["tfma"]["failures"] == found["vectorized"]["failures"] != []

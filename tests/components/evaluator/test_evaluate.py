"""TFMA on predictions of our runtimes: exact metrics, thresholds and changes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from components.evaluator import predict
from components.serving.servable import Servable, Signature

NAMES = ["a", "b", "c"]
SERVABLE = Servable("fake", "identity", tuple(NAMES), (Signature("s", "examples"),), "scores", "classes")


def test_columns_are_brought_into_another_order() -> None:
    scores = np.array([[0.1, 0.2, 0.7]], np.float32)
    np.testing.assert_allclose(predict.reorder(scores, ["c", "x", "a"], NAMES), [[0.7, 0.0, 0.1]])


class FakeRuntime:
    """Answers with the scores that stand in the record, as a model that knows classes a, b, c."""

    def __init__(self, folder: str) -> None:
        self._key = Path(folder).name
        self.servable = Servable.read(folder)

    def predict(self, raw, signature=None):
        import tensorflow as tf

        from components.serving.runtimes import Answer

        values = [
            tf.train.Example.FromString(record).features.feature[self._key].float_list.value[:]
            for record in raw
        ]
        return Answer(np.array(values, np.float32), np.array([NAMES] * len(raw), object))


@pytest.fixture(params=["tfma", "vectorized"])
def evaluate(request, monkeypatch, tmp_path, make_example, write_tfrecord):
    """Evaluates (label, candidate's answer, baseline's answer) rows by either engine."""
    import apache_beam as beam

    from components.evaluator import analyze
    from pipelines import evaluation
    from pipelines.config import Experiment

    def one_hot(name: str) -> list[float]:
        return [0.8 if name == other else 0.1 for other in NAMES]

    def go(rows, *, baseline: bool, **settings):
        monkeypatch.setattr(predict.runtimes, "load", FakeRuntime)
        records = [
            make_example(label=label, mine=one_hot(mine), other=one_hot(other)) for label, mine, other in rows
        ]
        experiment = Experiment.model_validate(
            {"name": "e", "data": {"source": "digits"}, "evaluation": settings}
        )
        config = analyze.parse_config(evaluation.eval_config(experiment), has_baseline=baseline)
        for name in ("mine", "other"):
            (tmp_path / name).mkdir(exist_ok=True)
            SERVABLE.write(tmp_path / name)
        models = predict.Models(str(tmp_path / "mine"), str(tmp_path / "other") if baseline else "")
        file = write_tfrecord(tmp_path / "data" / "records.gz", records, "GZIP")
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            used = analyze.analyze(
                pipeline, [str(file)], models, config, "label", str(tmp_path), request.param
            )
        assert used == request.param
        return analyze.summarize(str(tmp_path), has_baseline=baseline)

    return go


ROWS = [("a", "a", "a"), ("a", "b", "a"), ("b", "b", "b"), ("b", "b", "c"), ("c", "c", "c")]


def test_accuracy_overall_and_per_class(evaluate) -> None:
    summary = evaluate(ROWS, baseline=False, min_accuracy=0.8, min_class_accuracy=0.5)
    metrics = summary["metrics"]["candidate"]
    assert metrics["overall"] == pytest.approx({"accuracy": 0.8, "example_count": 5.0})
    assert metrics["label=a"]["accuracy"] == pytest.approx(0.5)
    assert metrics["label=c"]["accuracy"] == pytest.approx(1.0)
    assert summary["blessed"] is True
    assert summary["failures"] == []
    assert json.dumps(summary)


def test_thresholds_overall_and_per_class_are_checked(evaluate) -> None:
    summary = evaluate(ROWS, baseline=False, min_accuracy=0.9, min_class_accuracy=0.6)
    assert summary["blessed"] is False
    assert sorted(summary["failures"]) == [
        "accuracy on all examples is 0.8000; expected at least 0.9",
        "accuracy on label=a is 0.5000; expected at least 0.6",
    ]


def test_a_fall_below_the_baseline_is_refused(evaluate) -> None:
    worse = [(label, other, mine) for label, mine, other in ROWS] + [("c", "a", "c")]
    summary = evaluate(worse, baseline=True, min_accuracy=0.0, max_drop=0.01)
    assert summary["metrics"]["candidate"]["overall"]["accuracy"] == pytest.approx(4 / 6)
    assert summary["metrics"]["baseline"]["overall"]["accuracy"] == pytest.approx(5 / 6)
    assert summary["blessed"] is False
    assert "change against the baseline" in summary["failures"][0]


def test_an_equal_model_is_blessed(evaluate) -> None:
    summary = evaluate(ROWS, baseline=True, min_accuracy=0.5, max_drop=0.01)
    assert summary["blessed"] is True


def test_a_class_the_model_does_not_know_is_always_wrong(evaluate) -> None:
    summary = evaluate([*ROWS, ("zebra", "a", "a")], baseline=False, min_accuracy=0.0)
    assert summary["metrics"]["candidate"]["label=zebra"]["accuracy"] == 0.0


class FakeNumbers(FakeRuntime):
    """Answers with the number that stands in the record."""

    def __init__(self, key: str) -> None:
        from components.serving.servable import Servable, Signature

        self._key = key
        self.servable = Servable("fake", "identity", (), (Signature("s", "examples"),), "outputs", "")

    def predict(self, raw, signature=None):
        from components.serving.runtimes import Answer

        values = super().predict(raw).scores
        return Answer(values[:, 0], np.empty((len(raw), 0), object))


@pytest.fixture
def evaluate_numbers(monkeypatch, tmp_path, make_example):
    """Runs TFMA on (label, candidate's answer, baseline's answer) rows of a regression."""
    import apache_beam as beam

    from components.evaluator import analyze
    from pipelines import evaluation
    from pipelines.config import Experiment

    def go(rows, *, baseline: bool, **settings):
        monkeypatch.setattr(predict.runtimes, "load", FakeNumbers)
        records = [make_example(price=label, mine=mine, other=other) for label, mine, other in rows]
        model = {"family": "tabular", "task": "regression"}
        experiment = Experiment.model_validate(
            {
                "name": "e",
                "data": {"source": "taxi", "label": "price"},
                "model": model,
                "evaluation": settings,
            }
        )
        config = analyze.parse_config(evaluation.eval_config(experiment), has_baseline=baseline)
        models = predict.Models("mine", "other" if baseline else "")
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            data = pipeline | beam.Create(records)
            analyze.analyze(pipeline, data, models, config, "price", str(tmp_path))
        return analyze.summarize(str(tmp_path), has_baseline=baseline)

    return go


NUMBERS = [(10.0, 11.0, 10.5), (20.0, 20.0, 20.0), (30.0, 27.0, 30.5), (7, 7.0, 7.0)]


def test_errors_of_a_regression_and_their_ceiling(evaluate_numbers) -> None:
    summary = evaluate_numbers(NUMBERS, baseline=False, max_error=0.9)
    overall = summary["metrics"]["candidate"]["overall"]
    assert overall["mean_absolute_error"] == pytest.approx(1.0)
    assert overall["mean_squared_error"] == pytest.approx(2.5)
    assert summary["failures"] == ["mean_absolute_error on all examples is 1.0000; expected at most 0.9"]


def test_an_error_that_rises_above_the_baselines_is_refused(evaluate_numbers) -> None:
    summary = evaluate_numbers(NUMBERS, baseline=True)
    assert summary["metrics"]["baseline"]["overall"]["mean_absolute_error"] == pytest.approx(0.25)
    assert summary["blessed"] is False
    assert "mean_absolute_error (change against the baseline)" in summary["failures"][0]


def test_a_regression_as_good_as_its_baseline_is_blessed(evaluate_numbers) -> None:
    rows = [(label, mine, mine) for label, mine, _ in NUMBERS]
    assert evaluate_numbers(rows, baseline=True)["blessed"] is True

"""Every technique: same signatures, close answers, loadable with plain TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from components.rewriter import float16
from components.rewriter.base import TrainedModel
from components.rewriter.techniques import IDENTITY, TECHNIQUES
from components.serving import runtimes
from components.serving.servable import size_bytes, version_folder

# Half precision keeps 11 bits: probabilities move in the third digit.
TOLERANCE = {IDENTITY: 0.0, "frozen": 1e-5, "float16": 5e-3}


@pytest.fixture(scope="module")
def trained(model_uri, contract) -> TrainedModel:
    return TrainedModel(str(model_uri), contract)


@pytest.fixture(scope="module")
def built(trained, tmp_path_factory):
    root = tmp_path_factory.mktemp("built")
    for name, build in TECHNIQUES.items():
        (root / name).mkdir()
        build(trained, version_folder(root / name))
        trained.servable(name).write(root / name)
    return root


@pytest.mark.parametrize("name", sorted(TECHNIQUES))
def test_answers_stay_close_through_both_signatures(built, records, name: str) -> None:
    original, candidate = runtimes.load(built / IDENTITY), runtimes.load(built / name)
    expected, answer = original.predict(records), candidate.predict(records)
    np.testing.assert_allclose(answer.scores, expected.scores, atol=TOLERANCE[name], rtol=0)
    assert answer.classes.tolist() == expected.classes.tolist() == [["cat", "dog", "owl"]] * len(records)
    images = [
        tf.train.Example.FromString(item).features.feature["image"].bytes_list.value[0] for item in records
    ]
    np.testing.assert_allclose(
        candidate.predict(images, "predict_image").scores, answer.scores, atol=1e-6, rtol=0
    )


def test_float16_is_smaller_than_frozen(built) -> None:
    assert size_bytes(version_folder(built / "float16")) < size_bytes(version_folder(built / "frozen"))


def test_float16_keeps_constants_that_would_overflow() -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(np.full(64, 1e6, np.float32), name="large")
        tf.constant(np.full(64, 0.5, np.float32), name="small")
    kinds = {node.name: node.op for node in float16.halve(graph.as_graph_def()).node}
    assert kinds == {"large": "Const", "small/float16": "Const", "small": "Cast"}


def test_frozen_keeps_no_variables(built) -> None:
    loaded = tf.saved_model.load(str(version_folder(built / "frozen")))
    assert loaded.signatures["serving_default"].variables == ()

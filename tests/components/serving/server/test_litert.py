"""TFLite models in version folders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from tests.components.serving.server import models
from tests.components.serving.server.running_server import Clients, in_thread
from tests.components.serving.server.test_grpc import predict_request


class _Scale(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x")])
    def scale(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"tripled": x * 3.0, "total": tf.reduce_sum(x, axis=1)}


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    root = tmp_path_factory.mktemp("lite")
    module = _Scale()
    saved = root / "signed" / "1"
    tf.saved_model.save(module, str(saved), signatures=module.scale)
    content = tf.lite.TFLiteConverter.from_saved_model(str(saved)).convert()
    (saved / "model.tflite").write_bytes(content)
    (saved / "saved_model.pb").unlink()  # so that nothing else can answer
    plain = root / "plain" / "1"
    plain.mkdir(parents=True)
    function = tf.function(lambda x: x + 1.0).get_concrete_function(tf.TensorSpec([None, 2], tf.float32, "x"))
    content = tf.lite.TFLiteConverter.from_concrete_functions([function]).convert()
    (plain / "model.tflite").write_bytes(content)
    models.numbered(root / "n" / "1", 1)
    broken = root / "broken" / "1"
    broken.mkdir(parents=True)
    (broken / "model.tflite").write_bytes(b"no flatbuffer")
    with in_thread(
        model_root=str(root), prefer_tflite_model=True, file_system_poll_wait_seconds=0
    ) as clients:
        yield clients


def test_a_model_with_signatures(lite: Clients) -> None:
    response = lite.post("signed:predict", {"instances": [[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]]})
    assert response.json()["predictions"] == [
        {"total": 3.0, "tripled": [3.0, 6.0]},
        {"total": 7.0, "tripled": [9.0, 12.0]},
        {"total": 1.0, "tripled": [0.0, 3.0]},
    ]
    response = lite.predictions.Predict(
        predict_request("signed", outputs=["total"], x=np.float32([[1.0, 1.0]])), timeout=30
    )
    assert (list(response.outputs), list(response.outputs["total"].float_val)) == (["total"], [2.0])


def test_a_model_without_signatures_gets_one(lite: Clients) -> None:
    signatures = lite.get("plain/metadata").json()["metadata"]["signature_def"]["signature_def"]
    ((name, info),) = signatures["serving_default"]["inputs"].items()
    assert (info["dtype"], [dim["size"] for dim in info["tensor_shape"]["dim"]]) == ("DT_FLOAT", ["-1", "2"])
    for rows in ([[1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0]]):
        response = lite.post("plain:predict", {"inputs": {name: rows}})
        assert response.json() == {"outputs": [[value + 1 for value in row] for row in rows]}


def test_a_wrong_shape_is_refused(lite: Clients) -> None:
    assert lite.post("signed:predict", {"instances": [[1.0, 2.0, 3.0]]}).status_code == 400
    assert lite.post("signed:predict", {"instances": [[1.0, 2.0]]}).status_code == 200


def test_folders_without_a_tflite_model_load_as_usual(lite: Clients) -> None:
    assert lite.post("n:predict", {"instances": [0.0]}).json() == {"predictions": [1.0]}


def test_a_file_that_is_no_model(lite: Clients) -> None:
    (status,) = lite.get("broken").json()["model_version_status"]
    assert status["status"]["error_code"] == "FAILED_PRECONDITION"
    assert "does not load" in status["status"]["error_message"]

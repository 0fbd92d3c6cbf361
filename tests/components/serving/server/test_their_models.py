"""TensorFlow Serving's own test models answer as they do there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorflow_serving.apis import predict_pb2

from tests.components.serving.server.running_server import Clients, in_thread

_NAMES = {
    "half": "saved_model_half_plus_two_2_versions",
    "cpu": "saved_model_half_plus_two_cpu",
    "mlmd": "saved_model_half_plus_two_mlmd",
    "three": "saved_model_half_plus_three",
    "counter": "saved_model_counter",
    "bad": "bad_half_plus_two",
    "tflite": "parse_example_tflite",
}


@pytest.fixture(scope="module")
def theirs(their_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    root = tmp_path_factory.mktemp("theirs")
    for name, folder in _NAMES.items():
        shutil.copytree(their_models / folder, root / name)
    with in_thread(
        model_root=str(root),
        max_num_load_retries=0,
        prefer_tflite_model=True,
        file_system_poll_wait_seconds=0,
    ) as clients:
        yield clients


@pytest.mark.parametrize("name", ["half", "cpu", "mlmd"])
def test_half_plus_two(theirs: Clients, name: str) -> None:
    response = theirs.post(f"{name}:predict", {"instances": [1.0, 2.0, 5.0]})
    assert response.text == '{"predictions": [2.5, 3.0, 4.5]}'
    body = {"signature_name": "regress_x_to_y", "examples": [{"x": 80.0}, {"x": 20.0}]}
    assert theirs.post(f"{name}:regress", body).text == '{"results": [42.0, 12.0]}'
    body = {"signature_name": "classify_x_to_y", "examples": [{"x": 20.0}]}
    assert theirs.post(f"{name}:classify", body).text == '{"results": [[["", 12.0]]]}'


def test_the_newest_of_two_versions_is_served(theirs: Clients) -> None:
    assert theirs.states("half") == {124: "AVAILABLE"}


def test_half_plus_three(theirs: Clients) -> None:
    # Its graph does not load with tf.saved_model.load.
    assert theirs.post("three:predict", {"inputs": [1.0, 2.0]}).text == '{"outputs": [3.5, 4.0]}'


def test_the_counter_counts(theirs: Clients) -> None:
    # Its signatures have no inputs, which JSON cannot say; its variable is a reference.
    def call(signature: str) -> float:
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = "counter", signature
        return float(theirs.predictions.Predict(request, timeout=30).outputs["output"].float_val[0])

    assert [call("reset_counter"), call("incr_counter"), call("incr_counter"), call("get_counter")] == [
        0,
        1,
        2,
        2,
    ]
    body = {"signature_name": "incr_counter_by", "inputs": 3.0}
    assert theirs.post("counter:predict", body).text == '{"outputs": 5.0}'


def test_the_model_that_must_fail_is_listed_with_its_error(theirs: Clients) -> None:
    (status,) = theirs.get("bad").json()["model_version_status"]
    assert (status["version"], status["state"], status["status"]["error_code"]) == ("123", "END", "NOT_FOUND")
    assert theirs.post("bad:predict", {"instances": [1.0]}).status_code == 404


def test_a_tflite_model_that_parses_examples_is_refused_with_the_reason(theirs: Clients) -> None:
    (status,) = theirs.get("tflite").json()["model_version_status"]
    assert status["state"] == "END"
    assert "parses tf.Examples itself" in status["status"]["error_message"]

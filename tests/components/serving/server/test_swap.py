"""Versions come and go while requests are answered; lists of models are replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import model_management_pb2, prediction_log_pb2

from components.serving.server import warmup
from tests.components.serving.server import models
from tests.components.serving.server.running_server import Clients, in_thread, wait_for

Code = grpc.StatusCode


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A model root whose only model `n` has version 1."""
    models.numbered(tmp_path / "root" / "n" / "1", 1)
    return tmp_path / "root"


def number(clients: Clients, path: str = "n") -> float:
    response = clients.post(f"{path}:predict", {"instances": [0.0]})
    assert response.status_code == 200, response.text
    return float(response.json()["predictions"][0])


def reload(clients: Clients, *listed: dict[str, Any]) -> Any:
    request = model_management_pb2.ReloadConfigRequest()
    for item in listed:
        config = request.config.model_config_list.config.add(
            name=item["name"],
            base_path=str(item["base_path"]),
            model_platform=item.get("platform", "tensorflow"),
        )
        config.model_version_policy.specific.versions.extend(item.get("versions", []))
        config.version_labels.update(item.get("labels", {}))
    return clients.models.HandleReloadConfigRequest(request, timeout=60)


def refused_reload(clients: Clients, *listed: dict[str, Any]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        reload(clients, *listed)
    return caught.value.code(), caught.value.details()


def test_a_new_version_takes_over_and_the_old_one_is_listed_as_ended(root: Path, tmp_path: Path) -> None:
    second = models.numbered(tmp_path / "two", 2)
    with in_thread(model_root=str(root)) as clients:
        assert number(clients) == 1
        models.publish(second, root / "n", 2)
        wait_for(lambda: clients.states("n") == {1: "END", 2: "AVAILABLE"})
        assert number(clients) == 2
        response = clients.post("n/versions/1:predict", {"instances": [0.0]})
        assert (response.status_code, response.json()["error"]) == (
            404,
            "Servable not found for request: Specific(n, 1)",
        )


def test_a_corrupt_version_appears_and_nobody_notices_but_the_log(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"max_num_load_retries": 1, "load_retry_interval_micros": 1000}
    with in_thread(model_root=str(root), **options) as clients:
        corrupt = root / "n" / "2"
        corrupt.mkdir()
        (corrupt / "saved_model.pb").write_bytes(b"no model")
        wait_for(lambda: clients.states("n").get(2) == "END")
        assert number(clients) == 1
        status = next(
            item for item in clients.get("n").json()["model_version_status"] if item["version"] == "2"
        )
        assert status["state"] == "END"
        assert status["status"]["error_code"] != "OK"
        assert status["status"]["error_message"]
        assert "n version 2 does not load (attempt 2 of 2)" in caplog.text
        # It is repaired in place.
        (corrupt / "saved_model.pb").unlink()
        corrupt.rmdir()
        models.numbered(root / "n" / "2", 2)
        wait_for(lambda: clients.states("n") == {1: "END", 2: "AVAILABLE"})


def test_a_model_that_appears_in_the_root_is_served(root: Path, tmp_path: Path) -> None:
    other = models.numbered(tmp_path / "five", 5)
    with in_thread(model_root=str(root)) as clients:
        (root / "empty").mkdir()
        models.publish(other, root / "n", 0)  # older than what is served: not loaded
        (root / ".hidden" / "1").mkdir(parents=True)
        (root / "m").mkdir()
        models.publish(other, root / "m", 5)
        wait_for(lambda: clients.states("m") == {5: "AVAILABLE"})
        assert (number(clients, "m"), number(clients, "n")) == (5, 1)
        assert (clients.states(".hidden"), clients.states("n")) == ({}, {1: "AVAILABLE"})
        (root / "m" / "5").rename(tmp_path / "gone")
        wait_for(lambda: clients.states("m") == {})


def test_the_root_may_be_the_folder_of_one_model(root: Path) -> None:
    with in_thread(model_root=str(root / "n")) as clients:
        assert number(clients, "n") == 1


def test_reload_replaces_the_whole_list(root: Path, tmp_path: Path) -> None:
    models.numbered(tmp_path / "m" / "4", 4)
    models.numbered(tmp_path / "m" / "5", 5)
    with in_thread(model_base_path=str(root / "n"), model_name="n") as clients:
        response = reload(
            clients, {"name": "m", "base_path": tmp_path / "m", "versions": [4, 5], "labels": {"old": 4}}
        )
        assert response.status.error_code == 0
        assert (number(clients, "m"), number(clients, "m/labels/old")) == (5, 4)
        wait_for(lambda: clients.states("n") == {})
        assert clients.post("n:predict", {"instances": [0.0]}).status_code == 404


def test_reloads_that_are_refused(root: Path, tmp_path: Path) -> None:
    n = {"name": "n", "base_path": root / "n"}
    with in_thread(model_base_path=str(root / "n"), model_name="n") as clients:
        assert refused_reload(clients, n, n)[0] is Code.INVALID_ARGUMENT
        assert refused_reload(clients, {"name": "n", "base_path": "n"})[0] is Code.INVALID_ARGUMENT
        assert refused_reload(clients, {**n, "platform": "other"})[0] is Code.INVALID_ARGUMENT
        with pytest.raises(grpc.RpcError) as caught:
            clients.models.HandleReloadConfigRequest(model_management_pb2.ReloadConfigRequest(), timeout=10)
        assert caught.value.code() is Code.INVALID_ARGUMENT
        assert number(clients) == 1
        code, message = refused_reload(clients, {**n, "labels": {"canary": 9}})
        assert (code, "n version 9" in message) == (Code.FAILED_PRECONDITION, True)
        code, message = refused_reload(clients, n, {"name": "m", "base_path": tmp_path / "nowhere"})
        assert "did not become available: m" in message
        assert number(clients) == 1


def test_labels_for_unavailable_versions_on_demand(root: Path) -> None:
    with in_thread(
        model_base_path=str(root / "n"), model_name="n", allow_version_labels_for_unavailable_models=True
    ) as clients:
        reload(clients, {"name": "n", "base_path": root / "n", "labels": {"canary": 9}})
        response = clients.post("n/labels/canary:predict", {"instances": [0.0]})
        assert (response.status_code, response.json()["error"]) == (
            404,
            "Servable not found for request: Specific(n, 9)",
        )


def test_a_polled_list_is_taken_over_and_a_bad_one_is_not(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "models.config"
    entry = 'config {{ name: "{}" base_path: "{}" model_platform: "tensorflow" }}'
    config.write_text(f"model_config_list {{ {entry.format('a', root / 'n')} }}")
    with in_thread(model_config_file=str(config), model_config_file_poll_wait_seconds=0.05) as clients:
        assert number(clients, "a") == 1
        config.write_text("model_config_list { config {")
        wait_for(lambda: "list of models was not taken over" in caplog.text)
        assert number(clients, "a") == 1
        config.write_text(f"model_config_list {{ {entry.format('b', root / 'n')} }}")
        wait_for(lambda: clients.states("b") == {1: "AVAILABLE"})
        wait_for(lambda: clients.states("a") == {})


# Warm-up


def write_warm_up(folder: Path, *logs: Any) -> None:
    path = folder / warmup.FILE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for log in logs:
            writer.write(log.SerializeToString())


def predict_log(model: str, signature: str, **inputs: Any) -> Any:
    log = prediction_log_pb2.PredictionLog()
    spec = log.predict_log.request.model_spec
    spec.name, spec.signature_name = model, signature
    for name, value in inputs.items():
        log.predict_log.request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
    return log


def example_log(kind: str, signature: str) -> Any:
    log = prediction_log_pb2.PredictionLog()
    request = getattr(log, kind).request
    request.model_spec.signature_name = signature
    request.input.example_list.examples.add().features.feature["x"].float_list.value.append(2.0)
    return log


def test_warm_up_requests_of_every_kind_are_run(tmp_path: Path) -> None:
    folder = models.half_plus_two(tmp_path / "1")
    multi = prediction_log_pb2.PredictionLog()
    multi.multi_inference_log.SetInParent()
    write_warm_up(
        folder,
        predict_log("half", "", x=np.float32([[1.0]])),
        example_log("classify_log", "classify_x_to_y"),
        example_log("regress_log", "regress_x_to_y"),
        multi,
    )

    class Recording:
        signatures = _signatures(folder)

        def __init__(self) -> None:
            self.calls: list[str] = []

        def run(self, call: Any) -> list[Any]:
            self.calls.append(call.signature)
            return []

        def close(self) -> None:
            pass

    recording = Recording()
    assert warmup.warm(recording, folder) == 4
    assert recording.calls == ["serving_default", "classify_x_to_y", "regress_x_to_y"]


def _signatures(folder: Path) -> Any:
    from components.serving.server import loading

    model = loading.load(folder, loading.LoadSettings())
    signatures = model.signatures
    model.close()
    return signatures


def test_a_version_is_warmed_before_it_serves(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = models.numbered(tmp_path / "two", 2), models.numbered(tmp_path / "three", 3)
    write_warm_up(good, predict_log("n", "", x=np.float32([1.0])))
    write_warm_up(bad, predict_log("n", "", z=np.float32([1.0])))
    with in_thread(model_root=str(root)) as clients:
        models.publish(good, root / "n", 2)
        wait_for(lambda: clients.states("n").get(2) == "AVAILABLE")
        models.publish(bad, root / "n", 3)
        wait_for(lambda: "n version 3 does not load" in caplog.text)
        assert "Missing but required: {x}" in caplog.text
        assert number(clients) == 2
    with in_thread(model_root=str(root), enable_model_warmup=False) as clients:
        assert number(clients) == 3


def test_more_warm_up_requests_than_a_thousand(root: Path) -> None:
    write_warm_up(root / "n" / "1", *[predict_log("n", "", x=np.float32([1.0]))] * 1001)
    with in_thread(model_root=str(root)) as clients:
        message = clients.get("n").json()["model_version_status"][0]["status"]["error_message"]
        assert message == "Number of warmup records exceeded the maximum allowed: 1000"


def test_a_damaged_warm_up_file(root: Path) -> None:
    path = root / "n" / "1" / warmup.FILE
    path.parent.mkdir()
    path.write_bytes(b"no TFRecord, but long enough to hold a header")
    with in_thread(model_root=str(root)) as clients:
        status = clients.get("n").json()["model_version_status"][0]["status"]
        assert status["error_code"] == "DATA_LOSS"


# Batching


def test_batching_answers_as_without(made: Path, tmp_path: Path) -> None:
    parameters = tmp_path / "batching.config"
    parameters.write_text(
        "max_batch_size { value: 4 } batch_timeout_micros { value: 1000 } allowed_batch_sizes: 4"
    )
    with in_thread(
        model_root=str(made), enable_batching=True, batching_parameters_file=str(parameters)
    ) as clients:
        from tests.components.serving.server.test_grpc import predict_request

        calls = [
            clients.predictions.Predict.future(predict_request("half", x=np.float32([[value]])), timeout=60)
            for value in range(40)
        ]
        answers = [list(call.result().outputs["y"].float_val) for call in calls]
        assert answers == [[value / 2 + 3] for value in range(40)]
        # One bad request among good ones.
        wrong = {"signature_name": "matrix", "instances": [[1.0, 2.0]]}
        assert clients.post("kinds:predict", wrong).status_code == 400
        response = clients.post("half:predict", {"instances": [[1.0]] * 5})
        assert (response.status_code, "larger than maximum" in response.json()["error"]) == (400, True)

"""TFLite and ONNX from judging to REST: raw input works everywhere, and the answers are the judged ones."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from components.evaluator import predict
from components.infra_validator import validate
from components.infra_validator.worker import Request
from components.rewriter import rewrite
from components.rewriter.choose import Policy
from components.serving import manifest, runtimes
from components.serving.client import ModelClient
from components.serving.servable import Servable, version_folder
from components.serving_pusher import canary, deliver
from components.subprocesses import Limits
from tests.components.serving.server.running_server import Clients, in_thread

FORMATS = {"tflite": "tf_serving_tflite", "onnx": "triton"}


@dataclass(frozen=True)
class Pushed:
    """A candidate that went the whole way."""

    servable: Path
    report: Path
    version: Path
    target: str


@pytest.fixture(scope="module", params=sorted(FORMATS))
def pushed(request, model_uri, contract, examples_uri, records, tmp_path_factory) -> Pushed:
    root = tmp_path_factory.mktemp(request.param)
    folders = {name: root / name for name in ("scratch", "servable", "report")}
    for folder in folders.values():
        folder.mkdir()
    job = rewrite.Job(
        model_uri=str(model_uri),
        examples_uri=str(examples_uri),
        split="validation",
        calibration_split="validation",
        label="label",
        slices=["label"],
        contract=contract.to_json(),
        candidates=[request.param],
        target=FORMATS[request.param],
        policy=Policy("size", 20.0, 0.95, 20.0),
        max_examples=100,
        limits=Limits(120.0),
        keep=0,
        scratch=folders["scratch"],
    )
    outcome = rewrite.rewrite(job)
    assert outcome.chosen == request.param, outcome.verdicts[1].reason
    rewrite.write_servable(job, outcome, str(folders["servable"]))
    rewrite.write_report(job, outcome, str(folders["report"]))
    origin = deliver.Origin("animals", "animals-1", 7, {"name": request.param, "reason": "small"}, {})
    delivery = deliver.Delivery(
        str(folders["servable"]), root / "animals", origin, records, {"predict_image": "image"}
    )
    version = delivery.root / str(deliver.deliver(delivery, None).version)
    return Pushed(folders["servable"], folders["report"], version, FORMATS[request.param])


@pytest.fixture(scope="module")
def served(pushed) -> Iterator[Clients]:
    """The server loads it with its warm-up requests."""
    with in_thread(
        model_base_path=str(pushed.version.parent), model_name="animals", max_num_load_retries=0
    ) as clients:
        yield clients


def judged(pushed: Pushed) -> np.ndarray:
    return rewrite.read_judged(str(pushed.report))


def images(records) -> list[bytes]:
    parsed = [tf.train.Example.FromString(record).features.feature for record in records]
    return [features["image"].bytes_list.value[0] for features in parsed]


def test_served_answers_are_the_judged_ones(pushed, served, records) -> None:
    client = ModelClient("127.0.0.1", served.rest_port)
    for signature, name, raw in (
        ("serving_default", "examples", records),
        ("predict_image", "image_bytes", images(records)),
    ):
        rows = client.predict("animals", signature, name, raw)
        scores = np.array([row["scores"] for row in rows], np.float32)
        np.testing.assert_allclose(scores, judged(pushed), atol=1e-6)
        assert all(row["classes"] == ["cat", "dog", "owl"] for row in rows)


def test_rest_takes_one_image_as_base64(pushed, served, records) -> None:
    encoded = {"b64": base64.b64encode(images(records)[0]).decode()}
    answer = served.post("animals:predict", {"signature_name": "predict_image", "instances": [encoded]})
    np.testing.assert_allclose(answer.json()["predictions"][0]["scores"], judged(pushed)[0], atol=1e-6)


def test_tensors_are_answered_too_and_wrong_shapes_are_not(pushed, served, records) -> None:
    runtime = runtimes.load(pushed.servable)
    tensors = runtime.tensors(records[:3]).tolist()
    body = {"signature_name": "predict_tensors", "instances": tensors}
    rows = served.post("animals:predict", body).json()["predictions"]
    np.testing.assert_allclose([row["scores"] for row in rows], judged(pushed)[:3], atol=1e-6)
    body["instances"] = [row[:4] for row in tensors]
    assert served.post("animals:predict", body).status_code == 400


def test_a_server_is_asked_for_tensors_after_a_push(pushed, served, records) -> None:
    known = canary.Canary.of(runtimes.load_version(pushed.version), records[:4])
    server = canary.Server(ModelClient("127.0.0.1", served.rest_port), "animals", 60.0, 1e-5)
    canary.verify(server, 1, known)


def test_the_evaluator_and_the_infra_validator_take_it(pushed, examples_uri, records, tmp_path) -> None:
    step = predict.Predict(predict.Models(str(pushed.servable), ""), "label", ["label"])
    step.setup()
    made = [tf.train.Example.FromString(item).features.feature for item in step.process(records)]
    scores = np.array([item["candidate_scores"].float_list.value[:3] for item in made], np.float32)
    np.testing.assert_allclose(scores, judged(pushed), atol=1e-6)
    request = Request(
        str(pushed.servable), str(examples_uri), "validation", range(8), {"predict_image": "image"}, tmp_path
    )
    tolerance = rewrite.read_tolerance(str(pushed.report))
    expected = validate.Expected(judged(pushed), tolerance, pushed.target)
    verdict = validate.validate(request, expected, validate.Limits(120.0))
    assert verdict.faults == []
    assert verdict.figures["server"] == "embedded server"


def test_a_target_that_does_not_load_it_is_refused(pushed, examples_uri, tmp_path) -> None:
    request = Request(str(pushed.servable), str(examples_uri), "validation", range(8), {}, tmp_path)
    expected = validate.Expected(judged(pushed), 1e-5, "tf_serving")
    (fault,) = validate.validate(request, expected, validate.Limits(120.0)).faults
    assert "the target tf_serving does not load it" in fault


def test_the_version_folder_is_what_its_server_wants(pushed) -> None:
    servable = Servable.inside(pushed.version)
    assert servable == Servable.read(pushed.servable) == manifest.servable_of(pushed.version)
    assert manifest.faults(pushed.version) == []
    assert (pushed.version / servable.core.file).is_file()
    assert (pushed.version / "labels.txt").read_text() == "cat\ndog\nowl\n"
    beside = pushed.version.parent / "config.pbtxt"
    assert beside.exists() == (pushed.target == "triton")
    assert not (version_folder(pushed.servable) / "saved_model.pb").exists()

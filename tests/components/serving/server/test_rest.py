"""The REST API from the outside, as clients of TensorFlow Serving know it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.components.serving.server.running_server import Clients, error_of


def bytes_as_json(value: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(value).decode()}


# Predict


def test_row_form(server: Clients) -> None:
    response = server.post("half:predict", {"instances": [[1.0], [2.0], [5.0]]})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"predictions": [[3.5], [4.0], [5.5]]}


def test_column_form_drops_the_name_of_a_single_output(server: Clients) -> None:
    assert server.post("half:predict", {"inputs": [[1.0]]}).json() == {"outputs": [[3.5]]}
    assert server.post("half:predict", {"inputs": {"x": [[1.0]]}}).json() == {"outputs": [[3.5]]}


def test_row_form_names_several_inputs_and_outputs(server: Clients) -> None:
    rows = [{"a": [1.0, 2.0], "b": 3}, {"a": [0.5, 0.5], "b": -1}]
    response = server.post("kinds:predict", {"instances": rows})
    assert response.json() == {"predictions": [{"total": 6.0, "twice": 6}, {"total": 0.0, "twice": -2}]}


def test_column_form_names_several_inputs_and_outputs(server: Clients) -> None:
    response = server.post("kinds:predict", {"inputs": {"a": [[1.0, 2.0]], "b": [3]}})
    assert response.json() == {"outputs": {"total": [6.0], "twice": [6]}}


def test_a_rank_that_the_placeholder_does_not_declare_is_fed(server: Clients) -> None:
    # As in TensorFlow Serving's own tutorial: x is (None, 1), and a plain list is sent.
    assert server.post("half:predict", {"instances": [1.0, 2.0, 5.0]}).json() == {
        "predictions": [3.5, 4.0, 5.5]
    }


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("half/versions/1:predict", 2.5),
        ("half/versions/2:predict", 3.5),
        ("half/versions/00000002:predict", 3.5),
        ("half/labels/stable:predict", 2.5),
        ("half/labels/canary:predict", 3.5),
        ("half:predict", 3.5),
        ("half:PREDICT", 3.5),
    ],
)
def test_versions_and_labels(server: Clients, path: str, answer: float) -> None:
    assert server.post(path, {"instances": [[1.0]]}).json() == {"predictions": [[answer]]}


def test_strings_and_bytes(server: Clients) -> None:
    instances = ["plain", bytes_as_json(b"\xff\x00raw"), "caf\u00e9"]
    response = server.post("kinds:predict", {"signature_name": "texts", "instances": instances})
    rows = response.json()["predictions"]
    assert [base64.b64decode(row["same_bytes"]["b64"]) for row in rows] == [
        b"plain",
        b"\xff\x00raw",
        "caf\u00e9".encode(),
    ]
    assert rows[0]["upper"] == "PLAIN"


def test_base64_must_be_the_only_key(server: Clients) -> None:
    instances = [{"b64": "AAAA", "more": 1}]
    response = server.post("kinds:predict", {"signature_name": "texts", "instances": instances})
    assert response.status_code == 400
    response = server.post("kinds:predict", {"signature_name": "texts", "inputs": {"text": instances}})
    assert response.status_code == 400
    assert "not formatted correctly for base64" in error_of(response)


def test_bad_base64(server: Clients) -> None:
    response = server.post("kinds:predict", {"signature_name": "texts", "instances": [{"b64": "!!"}]})
    assert (response.status_code, error_of(response)) == (400, "Unable to base64 decode")


# Numbers


def test_special_numbers_come_and_go_bare(server: Clients) -> None:
    body = '{"signature_name": "floats", "instances": [NaN, Infinity, -Infinity, 1.5]}'
    response = server.post("kinds:predict", body)
    assert response.text == '{"predictions": [NaN, Infinity, -Infinity, 1.5]}'


def test_whole_floats_keep_their_point(server: Clients) -> None:
    response = server.post("kinds:predict", '{"signature_name": "floats", "instances": [3, 3.0, 0.2]}')
    assert response.text == '{"predictions": [3.0, 3.0, 0.2]}'


def test_half_precision_reads_back_to_the_same_values(server: Clients) -> None:
    response = server.post("kinds:predict", {"signature_name": "halves", "instances": [0.1, 2]})
    assert response.text == '{"predictions": [0.1, 2.0]}'


def test_a_float_into_an_integer_input_is_refused(server: Clients) -> None:
    response = server.post("kinds:predict", '{"signature_name": "ints", "instances": [1.0]}')
    assert response.status_code == 400
    assert "not of expected type: int32" in error_of(response)


def test_integers_and_booleans(server: Clients) -> None:
    assert server.post("kinds:predict", {"signature_name": "ints", "inputs": 7}).json() == {"outputs": 7}
    response = server.post("kinds:predict", {"signature_name": "bools", "instances": [True, False]})
    assert response.text == '{"predictions": [true, false]}'


@pytest.mark.parametrize(
    ("signature", "value"),
    [("ints", "2147483648"), ("ints", "true"), ("bools", "1"), ("floats", "16777217"), ("floats", "1e39")],
)
def test_values_that_do_not_fit_are_refused(server: Clients, signature: str, value: str) -> None:
    response = server.post("kinds:predict", f'{{"signature_name": "{signature}", "instances": [{value}]}}')
    assert response.status_code == 400
    assert error_of(response)


# Errors of requests


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("", "The document is empty"),
        ("instances = [1, 2]", "JSON Parse error: Invalid value"),
        (b'{"instances": ["\xff"]}', "JSON Parse error"),
        ("[" * 100_000, "JSON Parse error"),
        ("[1]", "Is not object"),
        ("{}", "Missing 'inputs' or 'instances' key"),
        ('{"instances": [[1.0]], "inputs": [[1.0]]}', "expecting only one of"),
        ('{"instances": []}', "No values in 'instances'"),
        ('{"instances": 1}', "to be an list/array"),
        ('{"instances": [["a"]]}', "is not of expected type: float"),
        ('{"instances": [[null]]}', "is not of expected type: float"),
        ('{"instances": [[1.0], [1.0, 2.0]]}', "unexpected size"),
        ('{"instances": [[1.0], 2.0]}', "incorrect level"),
        ('{"instances": [{"y": [1.0]}]}', "keys must be equal to: x"),
        ('{"instances": [{"x": [1.0], "y": 1}]}', "keys must be equal to: x"),
        ('{"instances": [[1.0], {"x": [1.0]}]}', "Expecting value/list but got object at item 1"),
        ('{"inputs": {"y": [1.0]}}', "Missing named input: x"),
        ('{"signature_name": 3, "instances": [[1.0]]}', "'signature_name' key must be a string"),
        ('{"signature_name": "no", "instances": [[1.0]]}', 'signature name: "no" not found'),
    ],
)
def test_malformed_bodies(server: Clients, body: str | bytes, message: str) -> None:
    response = server.post("half:predict", body)
    assert response.status_code == 400
    assert message in error_of(response)


def test_a_wrong_shape_is_told_and_does_no_harm(server: Clients) -> None:
    response = server.post("kinds:predict", {"signature_name": "matrix", "instances": [[1.0, 2.0]]})
    assert response.status_code == 400
    assert error_of(response)
    response = server.post("kinds:predict", {"signature_name": "matrix", "instances": [[1.0, 1.0, 1.0]]})
    assert response.json() == {"predictions": [6.0]}


def test_missing_inputs_in_row_and_column_form(server: Clients) -> None:
    response = server.post("kinds:predict", {"instances": [{"a": [1.0, 2.0]}]})
    assert (response.status_code, "keys must be equal to: a,b" in error_of(response)) == (400, True)
    response = server.post("kinds:predict", {"inputs": {"a": [[1.0, 2.0]]}})
    assert (response.status_code, error_of(response)) == (400, "Missing named input: b in 'inputs' object.")
    response = server.post("kinds:predict", {"instances": [[1.0, 2.0]]})
    assert (response.status_code, "plain list" in error_of(response)) == (400, True)


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("nope:predict", 404, "Servable not found for request: Latest(nope)"),
        ("half/versions/9:predict", 404, "Servable not found for request: Specific(half, 9)"),
        ("half/labels/x:predict", 400, "Unrecognized servable version label: x"),
        ("half/versions/18446744073709551615:predict", 400, "Failed to convert version"),
        ("half:explain", 400, "Malformed request: POST /v1/models/half:explain"),
        ("half/version/1:predict", 400, "Malformed request"),
        ("half/versions/one:predict", 400, "Malformed request"),
        ("", 400, "Malformed request"),
    ],
)
def test_unknown_names_and_paths(server: Clients, path: str, status: int, message: str) -> None:
    response = server.post(path, {"instances": [[1.0]]})
    assert response.status_code == status
    assert message in error_of(response)


@pytest.mark.parametrize("verb", ["GET", "PUT", "DELETE", "PATCH"])
def test_a_wrong_verb_is_a_malformed_request(server: Clients, verb: str) -> None:
    response = server.http.request(verb, "/v1/models/half:predict")
    assert (response.status_code, error_of(response)) == (
        400,
        f"Malformed request: {verb} /v1/models/half:predict",
    )


def test_paths_outside_v1_are_a_plain_404(server: Clients) -> None:
    response = server.http.get("/v2/models/half")
    assert response.status_code == 404
    assert "error" not in response.text


# Classify and regress


def test_classify(server: Clients) -> None:
    body = {"signature_name": "classify_x_to_y", "examples": [{"x": 20.0}, {"x": [10.0]}]}
    response = server.post("half/versions/1:classify", body)
    assert response.text == '{"results": [[["half", 12.0]], [["half", 7.0]]]}'
    body["signature_name"] = "classify_scores"
    assert server.post("half/versions/1:classify", body).json() == {"results": [[["", 12.0]], [["", 7.0]]]}


def test_regress_with_context(server: Clients) -> None:
    body: dict[str, Any] = {"signature_name": "regress_x_to_y", "examples": [{"x": 80.0}, {}]}
    body["context"] = {"x": 2.0, "name": "a", "raw": {"b64": "AAAA"}, "count": [1, 2], "yes": True}
    assert server.post("half/versions/1:regress", body).text == '{"results": [42.0, 3.0]}'


@pytest.mark.parametrize(
    "examples",
    [
        None,
        [],
        3,
        [1],
        [{"x": None}],
        [{"x": [[1.0]]}],
        [{"x": [1.0, "a"]}],
        [{"x": {"y": 1}}],
        [{"x": 1 << 63}],
    ],
)
def test_examples_that_are_none(server: Clients, examples: Any) -> None:
    body = {"signature_name": "regress_x_to_y", "examples": examples}
    response = server.post("half:regress", body)
    assert response.status_code == 400
    assert error_of(response)


def test_an_example_without_its_feature(server: Clients) -> None:
    response = server.post("half:regress", {"signature_name": "regress_x_to_y", "examples": [{"z": 1.0}]})
    assert response.status_code == 400
    assert "x" in error_of(response)


def test_signatures_that_cannot_classify_or_regress(server: Clients) -> None:
    for method in ("classify", "regress"):
        response = server.post(f"half:{method}", {"examples": [{"x": 1.0}]})
        assert response.status_code == 400
        response = server.post(f"half:{method}", {"signature_name": "no", "examples": [{"x": 1.0}]})
        assert (response.status_code, "No signature was found" in error_of(response)) == (400, True)


# Status and metadata


def test_status_of_all_versions(server: Clients) -> None:
    response = server.get("half")
    ok = {"error_code": "OK", "error_message": ""}
    assert response.json() == {
        "model_version_status": [
            {"version": "2", "state": "AVAILABLE", "status": ok},
            {"version": "1", "state": "AVAILABLE", "status": ok},
        ]
    }


@pytest.mark.parametrize("path", ["half/versions/1", "half/labels/stable"])
def test_status_of_one_version(server: Clients, path: str) -> None:
    listed = server.get(path).json()["model_version_status"]
    assert [item["version"] for item in listed] == ["1"]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("nope", 404, "Could not find any versions of model nope"),
        ("half/versions/9", 404, "Could not find version 9 of model half"),
        ("half/labels/x", 400, "Unrecognized servable version label: x"),
        ("nope/metadata", 404, "Servable not found for request: Latest(nope)"),
    ],
)
def test_status_of_what_is_not_there(server: Clients, path: str, status: int, message: str) -> None:
    response = server.get(path)
    assert (response.status_code, error_of(response)) == (status, message)


def test_status_without_a_name(server: Clients) -> None:
    response = server.http.get("/v1/models")
    assert (response.status_code, error_of(response)) == (400, "Missing model name in request.")


def test_metadata(server: Clients) -> None:
    body = server.get("half/versions/1/metadata").json()
    assert body["model_spec"] == {"name": "half", "signature_name": "", "version": "1"}
    signatures = body["metadata"]["signature_def"]["signature_def"]
    x = signatures["serving_default"]["inputs"]["x"]
    assert (x["dtype"], [dim["size"] for dim in x["tensor_shape"]["dim"]]) == ("DT_FLOAT", ["-1", "1"])
    assert signatures["regress_x_to_y"]["method_name"] == "tensorflow/serving/regress"


def test_names_may_be_encoded(server: Clients) -> None:
    assert server.http.get("/v1/models/%68alf").status_code == 200

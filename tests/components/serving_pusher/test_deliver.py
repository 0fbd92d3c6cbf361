"""What a push carries, and a server that must serve it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from components.errors import PushError, RejectedError, ServableError, WrongAnswersError
from components.rewriter.base import TrainedModel
from components.rewriter.techniques import BUILDS
from components.serving import examples, manifest, runtimes
from components.serving.client import ModelClient, ServerError
from components.serving.servable import version_folder
from components.serving_pusher import canary, deliver, warmup
from components.serving_pusher import root as serving_root
from tests.components.serving.server.running_server import Clients, free_ports, in_thread


@pytest.fixture(scope="module")
def servable(model_uri, contract, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("servable")
    trained = TrainedModel(str(model_uri), contract)
    BUILDS["frozen"](trained, version_folder(folder))
    trained.servable("frozen").write(folder)
    return folder


@pytest.fixture(scope="module")
def delivery(servable, records, tmp_path_factory) -> deliver.Delivery:
    return deliver.Delivery(
        servable_uri=str(servable),
        root=tmp_path_factory.mktemp("serving") / "animals",
        origin=deliver.Origin(
            "animals", "animals-1", 7, {"name": "frozen", "reason": "fast"}, {"overall": {"accuracy": 0.9}}
        ),
        records=records,
        raw_features={"predict_image": "image"},
    )


@pytest.fixture(scope="module")
def pushed(delivery) -> Path:
    return delivery.root / str(deliver.deliver(delivery, None).version)


@pytest.fixture(scope="module")
def served(delivery, pushed) -> Iterator[Clients]:
    with in_thread(
        model_base_path=str(delivery.root), model_name="animals", max_num_load_retries=0
    ) as clients:
        yield clients


def server(clients: Clients, timeout_s: float = 60.0) -> canary.Server:
    return canary.Server(ModelClient("127.0.0.1", clients.rest_port), "animals", timeout_s, 1e-4)


def test_the_pushed_folder_is_the_servable_and_what_lies_in_extra(servable, pushed) -> None:
    source = version_folder(servable)
    original = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    here = {path.relative_to(pushed) for path in pushed.rglob("*") if path.is_file()}
    extra = {"mlmd_uuid", "headrace.json", "tf_serving_warmup_requests"}
    assert here - original == {Path("assets.extra", name) for name in extra}
    assert all((pushed / path).read_bytes() == (source / path).read_bytes() for path in original)
    assert manifest.faults(pushed) == []


def test_the_manifest_says_where_it_came_from_and_what_it_must_answer(pushed, servable, records) -> None:
    found = manifest.read(pushed)
    assert (found["run"], found["servable_id"], found["chosen"]["name"]) == ("animals-1", 7, "frozen")
    assert found["metrics"] == {"overall": {"accuracy": 0.9}}
    rows = found["canary"]["examples"]
    assert len(rows) == warmup.MAX_EXAMPLES
    expected = runtimes.load(servable).predict(records[: len(rows)]).scores
    np.testing.assert_allclose([row["scores"] for row in rows], expected, atol=1e-6)
    assert json.loads((pushed / "assets.extra" / "mlmd_uuid").read_text()) == {
        "run": "animals-1",
        "servable": "7",
    }


def test_a_pushed_version_loads_by_its_manifest(pushed, servable, records) -> None:
    given = runtimes.load_version(pushed).predict(records)
    np.testing.assert_array_equal(given.scores, runtimes.load(servable).predict(records).scores)


def test_warm_up_calls_every_signature_alone_and_as_a_batch(pushed) -> None:
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
        for record in tf.data.TFRecordDataset(str(pushed / warmup.PATH)).as_numpy_iterator()
    ]
    sizes: dict[str, list[int]] = {}
    for request in logs:
        (tensor,) = request.inputs.values()
        sizes.setdefault(request.model_spec.signature_name, []).append(tensor.tensor_shape.dim[0].size)
    assert sizes == {"serving_default": [1] * 8 + [8], "predict_image": [1] * 8 + [8]}


def test_large_examples_are_few() -> None:
    assert len(warmup.choose([b"x" * (3 << 20)] * 8)) == 1
    assert len(warmup.choose([b"x"] * 100)) == warmup.MAX_EXAMPLES


def test_large_canaries_are_named_by_digest(servable, records) -> None:
    known = canary.Canary(runtimes.load(servable).servable, [b"x" * 5000], np.zeros((1, 3), np.float32))
    (row,) = known.to_json()["examples"]
    assert set(row) == {"sha256", "scores"}


def test_a_server_that_serves_it_well(delivery, served) -> None:
    done = deliver.deliver(of_servable(delivery, 8), server(served))
    assert done.new
    assert serving_root.in_service(delivery.root) == done.version


def of_servable(delivery: deliver.Delivery, servable_id: int, **changes: Any) -> deliver.Delivery:
    """The delivery of another servable with the same contents."""
    return replace(delivery, origin=replace(delivery.origin, servable_id=servable_id), **changes)


def test_a_servable_that_is_in_service_is_not_pushed_again(delivery, pushed, tmp_path) -> None:
    fresh = replace(delivery, root=tmp_path / "animals")
    first, second = deliver.deliver(fresh, None), deliver.deliver(fresh, None)
    assert (first.new, second) == (True, deliver.Delivered(first.version, new=False))
    # A damaged one is replaced.
    (fresh.root / "1" / "saved_model.pb").write_bytes(b"")
    assert deliver.deliver(fresh, None) == deliver.Delivered(2, new=True)


def test_what_a_server_refuses_is_withdrawn_from_mirrors_too(delivery, tmp_path) -> None:
    mirrored = replace(delivery, root=tmp_path / "animals", mirrors=[f"file://{tmp_path}/mirror/animals"])
    deliver.deliver(mirrored, None)
    nobody = canary.Server(ModelClient("127.0.0.1", free_ports()[0]), "animals", 0.2, 1e-4)
    with pytest.raises(PushError, match="withdrawn"):
        deliver.deliver(of_servable(mirrored, 9), nobody)
    assert [path.name for path in (tmp_path / "mirror" / "animals").iterdir()] == ["1"]
    assert serving_root.in_service(mirrored.root) == 1


def test_a_mirror_that_cannot_be_written_takes_the_version_back(delivery, tmp_path) -> None:
    (tmp_path / "file").write_text("no folder")
    mirrored = replace(delivery, root=tmp_path / "animals", mirrors=[f"file://{tmp_path}/file/animals"])
    with pytest.raises(PushError, match="could not be made"):
        deliver.deliver(mirrored, None)
    assert serving_root.in_service(mirrored.root) is None


def test_a_version_that_does_not_load_is_withdrawn_and_the_old_one_serves_on(
    delivery, served, monkeypatch
) -> None:
    before = serving_root.in_service(delivery.root)
    write = warmup.write

    def damage(folder: Path, logs: Any) -> None:
        write(folder, logs)
        (folder / "saved_model.pb").write_bytes(b"broken")

    monkeypatch.setattr(warmup, "write", damage)
    with pytest.raises(PushError, match=r"withdrawn: Version .* does not load") as caught:
        deliver.deliver(of_servable(delivery, 10), server(served))
    assert ".withdrawn" in caught.value.place
    assert "run again" in caught.value.remedy
    assert serving_root.in_service(delivery.root) == before
    (withdrawal,) = serving_root.withdrawals(delivery.root).values()
    assert withdrawal.cause == "canary"
    assert served.states("animals")[before] == "AVAILABLE"


def test_a_version_that_answers_otherwise_is_refused(delivery, served, pushed, records) -> None:
    runtime = runtimes.load_version(pushed)
    known = canary.Canary.of(runtime, records[:4])
    current = serving_root.in_service(delivery.root) or 0
    canary.verify(server(served), current, known)
    shifted = canary.Canary(runtime.servable, records[:4], known.scores + 0.01)
    with pytest.raises(ServableError, match=r"answers wrongly: scores differ .* 1.00e-02"):
        canary.verify(server(served), current, shifted)


def test_a_push_whose_model_answers_wrongly_is_told_from_one_that_failed(
    delivery, tmp_path, monkeypatch
) -> None:
    fresh = replace(delivery, root=tmp_path / "animals")
    away = ServerError("The server does not answer")
    asked = canary.Server(_Client([away], GOOD), "m", 0.0, 1e-3)  # type: ignore[arg-type]
    with pytest.raises(PushError, match="was not available") as raised:
        deliver.deliver(fresh, asked)
    assert not isinstance(raised.value, RejectedError)
    monkeypatch.setattr(canary, "_wait", lambda *_: None)
    with pytest.raises(RejectedError, match="withdrawn: Version 2 answers wrongly: scores have shape"):
        deliver.deliver(fresh, asked)
    assert serving_root.in_service(fresh.root) is None


def test_a_version_that_cannot_be_withdrawn_is_named(delivery, monkeypatch) -> None:
    def fail(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(serving_root, "withdraw", fail)
    with pytest.raises(PushError, match="cannot be: Permission denied; it is wrong") as caught:
        deliver._withdraw(delivery.root, 7, "it is wrong")
    assert caught.value.place.endswith("animals/7")


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class _Client:
    """Answers from lists; the last answer stays."""

    def __init__(self, states: list[Any], rows: Any) -> None:
        self.states, self.rows = states, rows

    def status(self, model: str) -> dict[int, str]:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return {3: state}

    def predict(self, *_: Any, version: int) -> list[dict[str, Any]]:
        if isinstance(self.rows, Exception):
            raise self.rows
        return self.rows


def _verify(states: list[Any], rows: Any, servable: Path) -> float:
    known = canary.Canary(
        runtimes.Servable.read(servable), [b"a", b"b"], np.array([[0.5, 0.5, 0], [0, 1, 0]], np.float32)
    )
    clock = _Clock()
    asked = canary.Server(_Client(states, rows), "m", 10.0, 1e-3)  # type: ignore[arg-type]
    canary.verify(asked, 3, known, clock)
    return clock.now


NAMES = ["cat", "dog", "owl"]
GOOD = [{"scores": [0.5, 0.5, 0.0], "classes": NAMES}, {"scores": [0.0, 1.0, 0.0], "classes": NAMES}]


def test_a_server_that_takes_its_time_is_waited_for(servable) -> None:
    gone = ServerError("The server does not answer: refused", place="http://x")
    assert 0.5 < _verify([gone, "START", "LOADING", "LOADING", "AVAILABLE"], GOOD, servable) < 1.0


@pytest.mark.parametrize(
    ("states", "rows", "fault"),
    [
        (["LOADING"], GOOD, "was not available within 10 s: LOADING"),
        ([ServerError("The server does not answer")], GOOD, "within 10 s: The server does not answer"),
        (["LOADING", "END"], GOOD, "does not load"),
        (["AVAILABLE"], ServerError("The server does not answer"), "does not answer: The server does not"),
        (["AVAILABLE"], ServerError("The server refused: busy", status=503), "refused: busy"),
    ],
)
def test_a_server_in_trouble_says_nothing_about_the_model(servable, states, rows, fault: str) -> None:
    with pytest.raises(ServableError, match=fault) as raised:
        _verify(states, rows, servable)
    assert not isinstance(raised.value, WrongAnswersError)


@pytest.mark.parametrize(
    ("states", "rows", "fault"),
    [
        (["AVAILABLE"], ServerError("The server refused: no kernel", status=500), "refused: no kernel"),
        (["AVAILABLE"], GOOD[:1], "scores have shape"),
        (["AVAILABLE"], [{"outputs": [1.0]}] * 2, "outputs are not as expected"),
        (["AVAILABLE"], [GOOD[0], {**GOOD[1], "classes": ["a", "b", "c"]}], "class names differ"),
        (["AVAILABLE"], [GOOD[0], {**GOOD[1], "scores": [0.0, float("nan"), 0.0]}], "scores differ"),
    ],
)
def test_what_a_model_does_wrong_on_a_server_is_said(servable, states, rows, fault: str) -> None:
    with pytest.raises(WrongAnswersError, match=fault):
        _verify(states, rows, servable)


def test_inputs_of_other_signatures_are_cut_out_of_examples(servable, records) -> None:
    inputs = examples.raw_inputs(runtimes.Servable.read(servable), records[:2], {"predict_image": "image"})
    by_name = {signature.name: raw for signature, raw in inputs.items()}
    assert by_name["serving_default"] == records[:2]
    assert all(item.startswith(b"\x89PNG") for item in by_name["predict_image"])


class _Killed(BaseException):
    """What ends the process between the push and its proof."""


def test_a_push_that_was_killed_before_it_was_proven_is_withdrawn_all_the_same(
    delivery, tmp_path, monkeypatch
) -> None:
    fresh = replace(delivery, root=tmp_path / "animals")
    nobody = canary.Server(ModelClient("127.0.0.1", free_ports()[0]), "animals", 0.2, 1e-4)

    def killed(*given: Any) -> None:
        raise _Killed

    with monkeypatch.context() as patched:
        patched.setattr(canary, "verify", killed)
        with pytest.raises(_Killed):
            deliver.deliver(fresh, nobody)
    assert serving_root.in_service(fresh.root) == 1
    with pytest.raises(PushError, match="The pushed version was withdrawn"):
        deliver.deliver(fresh, nobody)
    assert serving_root.in_service(fresh.root) is None


def test_what_was_proven_stays_where_the_server_is_away_later(delivery, tmp_path) -> None:
    fresh = replace(delivery, root=tmp_path / "animals")
    deliver.deliver(fresh, None)
    nobody = canary.Server(ModelClient("127.0.0.1", free_ports()[0]), "animals", 0.2, 1e-4)
    with pytest.raises(PushError):
        deliver.deliver(fresh, nobody)
    assert serving_root.in_service(fresh.root) == 1


def test_an_error_of_a_client_of_others_withdraws_too(delivery, tmp_path, monkeypatch) -> None:
    """File systems and servers raise errors of their own kinds."""

    def fail(*given: Any) -> None:
        raise LookupError("no such endpoint")

    monkeypatch.setattr(canary, "verify", fail)
    fresh = replace(delivery, root=tmp_path / "animals")
    nobody = canary.Server(ModelClient("127.0.0.1", 1), "animals", 0.2, 1e-4)
    with pytest.raises(PushError, match="could not be shown to be served: LookupError: no such endpoint"):
        deliver.deliver(fresh, nobody)
    assert serving_root.in_service(fresh.root) is None


def test_a_root_that_cannot_be_written_is_a_push_that_failed(delivery, tmp_path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(PushError):
        deliver.deliver(replace(delivery, root=tmp_path / "file" / "animals"), None)

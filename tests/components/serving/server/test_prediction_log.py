"""The sample of predictions that a server logs: what is in it, what is not, and how large it grows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from components.errors import ServableError
from components.serving.server.options import Options
from components.serving.server.prediction_log import PredictionLog, Settings, files_of
from tests.components.serving.server.running_server import in_thread

SCORES = np.array([[0.25, 0.75], [0.9, 0.1]], np.float32)
CLASSES = np.array([[b"no", b"yes"], [b"no", b"yes"]], object)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_server_logs_what_it_answered_and_not_what_it_was_asked(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    body = {"instances": ["a long secret", "short"], "signature_name": "predict_text"}
    with in_thread(
        model_base_path=str(made / "classes"),
        model_name="classes",
        prediction_log=str(folder),
        prediction_log_share=1.0,
    ) as server:
        assert server.post("classes:predict", body).status_code == 200
        assert server.post("classes:predict", {"instances": [1.0]}).status_code == 400
    (path,) = folder.glob("classes*")
    found = lines(path)
    assert [(line["version"], line["class"], line["score"]) for line in found] == [
        (1, "long", 0.75),
        (1, "short", 0.75),
    ]
    assert "secret" not in path.read_text()


def test_inputs_are_logged_where_they_are_asked_for(tmp_path: Path) -> None:
    log = PredictionLog(Settings(tmp_path, 1.0, 1 << 20, inputs=True), clock=lambda: 7.0)
    inputs = {"text": np.array([b"plain", b"\xff\x00"], object), "x": np.array([[1.0, 2.0], [3.0, 4.0]])}
    log.note("m", 3, {"scores": SCORES, "classes": CLASSES}, inputs)
    log.close()
    first, second = lines(tmp_path / "m.jsonl")
    assert first == {
        "at": 7.0,
        "version": 3,
        "class": "yes",
        "score": 0.75,
        "inputs": {"text": "plain", "x": [1.0, 2.0]},
    }
    assert second["inputs"] == {"text": {"b64": "/wA="}, "x": [3.0, 4.0]}


def test_of_other_models_numbers_and_positions_are_logged_and_else_nothing(tmp_path: Path) -> None:
    log = PredictionLog(Settings(tmp_path, 1.0, 1 << 20), clock=lambda: 7.0)
    log.note("m", 1, {"outputs": np.array([[1.5], [2.5]], np.float32)}, {})
    log.note("m", 1, {"scores": SCORES}, {})
    log.note("m", 1, {"embedding": SCORES}, {})
    log.close()
    found = [line.get("value", line.get("class")) for line in lines(tmp_path / "m.jsonl")]
    assert found == [1.5, 2.5, "1", "0"]


def test_only_a_share_is_logged(tmp_path: Path) -> None:
    chances = iter([0.05, 0.5, 0.09, 0.1])
    log = PredictionLog(Settings(tmp_path, 0.1, 1 << 20), chance=lambda: next(chances), clock=lambda: 7.0)
    for version in range(4):
        log.note("m", version, {"scores": SCORES[:1]}, {})
    log.close()
    assert [line["version"] for line in lines(tmp_path / "m.jsonl")] == [0, 2]


def test_files_stay_within_their_room_and_keep_the_newest(tmp_path: Path) -> None:
    room = 2_000
    log = PredictionLog(Settings(tmp_path, 1.0, room), clock=lambda: 7.0)
    for version in range(100):
        log.note("m", version, {"scores": SCORES[:1]}, {})
    log.close()
    older, current = files_of(tmp_path, "m")
    assert older.stat().st_size + current.stat().st_size <= room
    kept = [line["version"] for path in (older, current) for line in lines(path)]
    assert kept == list(range(100 - len(kept), 100))
    assert len(kept) > 15


def test_a_log_that_cannot_be_written_does_not_stop_answers(tmp_path: Path, caplog) -> None:
    log = PredictionLog(Settings(tmp_path, 1.0, 1 << 20))
    (tmp_path / "m.jsonl").mkdir()
    for _ in range(3):
        log.note("m", 1, {"scores": SCORES}, {})
    log.close()
    assert len([record for record in caplog.records if "cannot all be logged" in record.message]) == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServableError, match="Predictions cannot be logged") as raised:
        PredictionLog(Settings(tmp_path / "file" / "log", 1.0, 1 << 20))
    assert str(tmp_path / "file" / "log") in raised.value.place


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"prediction_log_share": 0.0}, "prediction_log_share=0"),
        ({"prediction_log_share": 1.5}, "prediction_log_share=1.5"),
        ({"prediction_log_max_bytes": 0}, "prediction_log_max_bytes=0"),
        ({"prediction_log_inputs": True}, "needs prediction_log"),
    ],
)
def test_bad_flags(flags, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Options(model_root="models", **flags)

"""Bulk inference: every input answered or named, and whole output or none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import WorkerLostError
from components.serving import runtimes
from pipelines import bulk
from pipelines.beam_stage import Beam
from pipelines.cli.main import main
from pipelines.engines import answers
from pipelines.errors import EngineError, InputError, NotFoundError
from pipelines.lineage.store import Store
from pipelines.runners import beam_pipelines
from pipelines.workspace import Workspace
from tests.servables import write_lengths


@pytest.fixture(scope="module")
def pushed(tmp_path_factory) -> Path:
    """A pushed version that takes examples, images and texts."""
    return write_lengths(tmp_path_factory.mktemp("serving") / "lengths" / "1")


@pytest.fixture
def records(make_example) -> list[bytes]:
    return [make_example(image=b"x" * (number % 9)) for number in range(150)]


def lines(folder: Path, pattern: str) -> list[dict[str, Any]]:
    return [
        json.loads(line) for path in sorted(folder.glob(pattern)) for line in path.read_text().splitlines()
    ]


def test_examples_are_answered_in_order(pushed, records, write_tfrecord, tmp_path) -> None:
    output = tmp_path / "out"
    write_tfrecord(tmp_path / "in" / "data_tfrecord-0.gz", records, "GZIP")
    outcome = bulk.run(bulk.Request(pushed, tmp_path / "in", output))
    assert (outcome.answered, outcome.bad) == (150, 0)
    rows = lines(output, "part-*.jsonl")
    known = runtimes.load_version(pushed).predict(records)
    assert [row["record"] for row in rows] == list(range(150))
    np.testing.assert_allclose([row["scores"] for row in rows], known.scores, atol=1e-5)
    best = [names[index] for names, index in zip(known.classes, known.scores.argmax(1), strict=True)]
    assert [row["label"] for row in rows] == best
    said = json.loads((output / "manifest.json").read_text())
    assert (said["model"], said["version"], said["run"]) == ("lengths", "1", "lengths-1")
    assert said["class_names"] == ["long", "short"]
    assert {path.name for path in output.iterdir()} == {"part-000000.jsonl", "manifest.json"}


def test_images_to_tfrecords_with_a_bad_one_aside(pushed, png, tmp_path) -> None:
    source, output = tmp_path / "images", tmp_path / "out"
    source.mkdir()
    for number in range(5):
        (source / f"{number}.png").write_bytes(png(number * 40) if number != 3 else b"no image")
    request = bulk.Request(
        pushed, source, output, format="tfrecord", on_bad="quarantine", max_bad_fraction=0.5
    )
    outcome = bulk.run(request)
    assert (outcome.answered, outcome.bad) == (4, 1)
    (part,) = output.glob("part-*")
    parsed = [
        tf.train.Example.FromString(record).features.feature
        for record in tf.data.TFRecordDataset(str(part), "GZIP").as_numpy_iterator()
    ]
    names = [Path(item["file"].bytes_list.value[0].decode()).name for item in parsed]
    assert names == ["0.png", "1.png", "2.png", "4.png"]
    assert all(len(item["scores"].float_list.value) == 2 for item in parsed)
    (bad,) = lines(output, "bad-*.jsonl")
    assert bad["place"] == f"{source}/3.png, record 0"
    assert "no image that decodes" in bad["reason"]


def test_texts_of_a_csv(pushed, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,abc\n2,a longer text\n")
    bulk.run(bulk.Request(pushed, tmp_path / "a.csv", tmp_path / "out"))
    assert [row["label"] for row in lines(tmp_path / "out", "part-*")] == ["short", "long"]
    (tmp_path / "b.csv").write_text("text,reply\na,b\nabc,def\n")
    bulk.run(bulk.Request(pushed, tmp_path / "b.csv", tmp_path / "pairs", pair_column="reply"))
    assert [row["label"] for row in lines(tmp_path / "pairs", "part-*")] == ["short", "long"]


def test_an_example_that_the_model_cannot_take_costs_no_other(
    pushed,
    records,
    make_example,
    write_tfrecord,
    tmp_path,
) -> None:
    mixed = [*records[:20], make_example(other=1), *records[20:40]]
    path = write_tfrecord(tmp_path / "a.tfrecord", mixed)
    request = bulk.Request(pushed, path, tmp_path / "out", on_bad="quarantine", max_bad_fraction=0.1)
    assert bulk.run(request).answered == 40
    (bad,) = lines(tmp_path / "out", "bad-*")
    assert bad["record"] == 20
    assert "the model cannot take it" in bad["reason"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"A record cannot be used: .* \(2 bad records or files in all\)"),
        ({"on_bad": "quarantine"}, "Too many records cannot be used: 2 of 5, over 1.00%"),
    ],
)
def test_too_many_bad_records_leave_no_output(pushed, tmp_path, settings, message: str) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,a\nx\n2,b\ny\n3,c\n")
    with pytest.raises(InputError, match=message) as caught:
        bulk.run(bulk.Request(pushed, tmp_path / "a.csv", tmp_path / "out", **settings))
    assert caught.value.place == f"{tmp_path}/a.csv, record 1"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_mistakes(pushed, tmp_path, png) -> None:
    (tmp_path / "a.png").write_bytes(png())
    with pytest.raises(NotFoundError, match="no signature 'predict_images' for images"):
        bulk.run(bulk.Request(pushed, tmp_path / "a.png", tmp_path / "out", signature="predict_images"))
    with pytest.raises(InputError, match="The output is there already"):
        bulk.run(bulk.Request(pushed, tmp_path / "a.png", tmp_path, signature="predict_text"))
    with pytest.raises(InputError, match="one kind; found none"):
        bulk.run(bulk.Request(pushed, tmp_path / "none", tmp_path / "out"))
    with pytest.raises(InputError, match="manifest cannot be read"):
        bulk.run(bulk.Request(tmp_path, tmp_path / "a.png", tmp_path / "out"))


@pytest.mark.parametrize(
    ("engine", "place"),
    [
        (
            {"runner": "portable", "job_endpoint": "127.0.0.1:1", "workers": "loopback"},
            "beam.job_endpoint: 127.0.0.1:1",
        ),
        ({"runner": "flink", "address": "http://127.0.0.1:1"}, "beam.address: http://127.0.0.1:1"),
        ({"parallelism": 2, "pool": "127.0.0.1:1"}, "beam.pool: 127.0.0.1:1"),
    ],
)
def test_an_engine_that_is_not_there_is_refused_before_anything_is_written(
    pushed, tmp_path, monkeypatch, engine: dict[str, Any], place: str
) -> None:
    monkeypatch.setattr(answers, "_CONNECT_S", 1.0)
    (tmp_path / "a.csv").write_text("text\na\n")
    with pytest.raises(EngineError, match="cannot be reached") as caught:
        bulk.run(bulk.Request(pushed, tmp_path / "a.csv", tmp_path / "new" / "out", beam=Beam(**engine)))
    assert caught.value.place == place
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(("losses", "found"), [(2, ["a.csv", "out"]), (3, ["a.csv"])])
def test_a_lost_worker_is_made_up_for_twice(
    pushed, tmp_path, monkeypatch, losses: int, found: list[str]
) -> None:
    make, left = beam_pipelines.pipeline_maker, iter(range(losses))

    def maker(arguments: list[str]) -> Any:
        if next(left, None) is not None:
            raise WorkerLostError("SDK worker disconnected")
        return make(arguments)

    monkeypatch.setattr(beam_pipelines, "pipeline_maker", maker)
    (tmp_path / "a.csv").write_text("text\na\n")
    request = bulk.Request(pushed, tmp_path / "a.csv", tmp_path / "out")
    if losses == 2:
        assert bulk.run(request).answered == 1
    else:
        with pytest.raises(bulk.BulkFailedError, match="lost a worker 3 times"):
            bulk.run(request)
    assert sorted(path.name for path in tmp_path.iterdir()) == found


def test_a_model_that_does_not_load(pushed, tmp_path) -> None:
    broken = tmp_path / "broken" / "1"
    shutil.copytree(pushed, broken)
    (broken / "saved_model.pb").write_bytes(b"broken")
    (tmp_path / "a.csv").write_text("text\na\n")
    with pytest.raises(bulk.BulkFailedError, match="A SavedModel does not load") as caught:
        bulk.run(bulk.Request(broken, tmp_path / "a.csv", tmp_path / "out"))
    assert "Traceback" not in caught.value.headline
    assert not (tmp_path / "out").exists()


def test_models_are_found_by_name_and_version(pushed) -> None:
    serving = pushed.parents[1]
    assert bulk.resolve_model(serving, "lengths", None) == pushed
    assert bulk.resolve_model(serving, "lengths", 1) == pushed
    with pytest.raises(NotFoundError, match="no version 2 of 'lengths'"):
        bulk.resolve_model(serving, "lengths", 2)
    with pytest.raises(NotFoundError, match="no model 'length' in service") as caught:
        bulk.resolve_model(serving, "length", None)
    assert caught.value.remedy == "Did you mean 'lengths'?"


def test_the_command(pushed, tmp_path, capfd, monkeypatch) -> None:
    workspace = Workspace.open(tmp_path / "w", create=True)
    with Store(workspace.database):
        pass
    (workspace.serving / "lengths").symlink_to(pushed.parent)
    (tmp_path / "a.csv").write_text("text\na\nb\n")

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("pipelines.cli.main._exit", leave)
    arguments = [
        "lengths",
        str(tmp_path / "a.csv"),
        str(tmp_path / "out"),
        "--workspace",
        str(workspace.root),
    ]
    with pytest.raises(SystemExit) as ended:
        main(["bulk", *arguments])
    assert ended.value.code == 0
    assert "Answered    2 inputs with version 1 of lengths" in capfd.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["bulk", *arguments])
    assert ended.value.code == 2
    assert "The output is there already" in capfd.readouterr().err

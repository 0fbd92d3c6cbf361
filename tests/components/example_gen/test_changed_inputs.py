"""Data that changes while a run reads it is never taken for what the run began with."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import apache_beam as beam
import pytest
from tfx.dsl.components.base.base_beam_executor import BaseBeamExecutor
from tfx.types import standard_artifacts

from components.artifacts import IngestionReport, QuarantinedRecords
from components.errors import DataError
from components.example_gen.executor import Executor
from components.example_gen.request import FeatureRule, Request, Source, SplitPlan
from components.example_gen.sources import digest, list_images

SHARES = (("train", 6), ("validation", 2), ("test", 2))


@pytest.fixture
def execute(tmp_path):
    """Runs the node on a request, with the digest that the run began with; returns the report's folder."""

    def go(request: Request, data_digest: str) -> Path:
        outputs = {
            "examples": standard_artifacts.Examples(),
            "report": IngestionReport(),
            "quarantine": QuarantinedRecords(),
        }
        for key, artifact in outputs.items():
            artifact.uri = str(tmp_path / "out" / key)
            Path(artifact.uri).mkdir(parents=True)
        context = BaseBeamExecutor.Context(
            make_beam_pipeline_fn=lambda: beam.Pipeline(runner="FnApiRunner"), tmp_dir=str(tmp_path)
        )
        properties = {"request": request.to_json(), "data_digest": data_digest}
        Executor(context).Do({}, {key: [artifact] for key, artifact in outputs.items()}, properties)
        return Path(outputs["report"].uri)

    return go


def digest_now(*paths: Path) -> str:
    return digest((str(path), hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths)


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "in" / "t.csv"
    path.parent.mkdir()
    path.write_text("x,label\n" + "".join(f"{row},{row % 2}\n" for row in range(200)))
    return path


def table_request(path: Path) -> Request:
    plan, rules = SplitPlan("hash", SHARES), (FeatureRule("label", "any"),)
    return Request((Source(str(path)),), "csv", plan, rules, "label")


def test_a_table_that_was_changed_after_the_run_began(execute, table) -> None:
    began_with = digest_now(table)
    table.write_text(table.read_text() + "200,1\n")
    with pytest.raises(DataError, match="changed while the run was reading it") as caught:
        execute(table_request(table), began_with)
    assert str(table) in caught.value.place


def test_a_table_that_stays_is_recorded_by_its_digest(execute, table) -> None:
    report = execute(table_request(table), digest_now(table))
    (row,) = map(json.loads, (report / "files.jsonl").read_text().splitlines())
    assert row["sha256"] == hashlib.sha256(table.read_bytes()).hexdigest()
    assert row["bytes"] == table.stat().st_size


@pytest.fixture
def photos(tmp_path, png) -> Path:
    root = tmp_path / "in"
    for number in range(40):
        path = root / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(number))
    (root / "list.csv").write_text(
        "file,label\n" + "".join(f"{'ab'[number % 2]}/{number}.png,{number % 2}\n" for number in range(40))
    )
    return root


def image_request(listed: Path) -> Request:
    rules = (FeatureRule("image", "image"), FeatureRule("label", "string"))
    root = listed if listed.is_dir() else listed.parent
    options = {"list": str(listed), "root": str(root)}
    return Request((), "images", SplitPlan("hash", SHARES), rules, "label", options=options)


def began_with(listed: Path) -> str:
    sources, _ = list_images(listed)
    return digest_now(*(Path(source.path) for source in sources), *([listed] if listed.is_file() else []))


@pytest.mark.parametrize("change", ["replaced", "added", "removed"])
def test_an_image_folder_that_was_changed(execute, photos, png, change) -> None:
    expected = began_with(photos)
    if change == "removed":
        (photos / "a" / "0.png").unlink()
    else:
        (photos / "a" / ("0.png" if change == "replaced" else "new.png")).write_bytes(png(99))
    with pytest.raises(DataError, match="changed while the run was reading it"):
        execute(image_request(photos), expected)


def test_a_list_of_images_that_was_changed(execute, photos) -> None:
    expected = began_with(photos / "list.csv")
    path = photos / "list.csv"
    path.write_text(path.read_text() + "\n")
    with pytest.raises(DataError, match="changed while the run was reading it"):
        execute(image_request(path), expected)


@pytest.mark.parametrize("listed", ["", "list.csv"])
def test_images_that_stay_are_recorded_by_their_digests(execute, photos, listed) -> None:
    report = execute(image_request(photos / listed), began_with(photos / listed))
    rows = [json.loads(line) for line in (report / "files.jsonl").read_text().splitlines()]
    assert len(rows) == 40 + bool(listed)
    for row in rows:
        assert row["sha256"] == hashlib.sha256(Path(row["path"]).read_bytes()).hexdigest()
        assert row["bytes"] == Path(row["path"]).stat().st_size


@pytest.mark.parametrize("number", range(20))
def test_a_picture_in_another_split_or_class_is_other_data(tmp_path, number: int) -> None:
    """Whichever it is: the order of all, which mixes them, need not change by one that moves."""
    root = tmp_path / "in"
    for split in ("train", "test"):
        for label in "ab":
            for picture in range(20):
                path = root / split / label / f"{split}_{picture}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(f"{split}{label}{picture}".encode())
    before = began_with(root)
    moved = root / "train" / "a" / f"train_{number}.png"
    split = moved.rename(root / "test" / "a" / moved.name)
    assert began_with(root) != before
    split.rename(root / "train" / "b" / f"b_{moved.name}")
    assert began_with(root) != before


def test_the_same_data_elsewhere_is_the_same(tmp_path, photos) -> None:
    before = began_with(photos)
    elsewhere = tmp_path / "some" / "where" / "else"
    elsewhere.parent.mkdir(parents=True)
    photos.rename(elsewhere)
    assert began_with(elsewhere) == before

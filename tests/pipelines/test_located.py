"""Settings and arguments at addresses: experiments, weights, schemas, files of commands."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from components.example_gen import origins
from pipelines import config
from pipelines.cli import export
from pipelines.errors import ConfigError, InputError
from pipelines.located import located
from tests.pipelines.cli.test_main import call, exits_by_exception  # noqa: F401 fixture for all tests here


@pytest.fixture
def base(tmp_path) -> str:
    return f"memory://{tmp_path.name}/files"


def put(url: str, content: str) -> str:
    files, path = fsspec.core.url_to_fs(url)
    files.pipe_file(path, content.encode())
    return url


def test_an_experiment_file(base) -> None:
    url = put(f"{base}/cats.yaml", "data: {path: 's3://bucket/cats'}\ntrain: {epochs: 3}\n")
    loaded = config.load(url, ["train.epochs=4"])
    assert (loaded.name, loaded.data.path, loaded.train.epochs) == ("cats", "s3://bucket/cats", 4)
    with pytest.raises(InputError, match="Nothing is there"):
        config.load(f"{base}/dogs.yaml")
    with pytest.raises(ConfigError) as caught:
        config.load(put(f"{base}/bad.yaml", "data:\n  path: [\n"))
    assert caught.value.place == f"{base}/bad.yaml, line 3"


def test_weights_schemas_and_teachers(base, tmp_path) -> None:
    settings = {
        "name": "e",
        "data": {"path": f"{base}/data"},
        "validation": {"schema_file": put(f"{base}/schema.pbtxt", "feature {}")},
        "model": {"family": "image", "weights": put(f"{base}/w/net.weights.h5", "weights")},
        "train": {"distill": {"teacher": f"{base}/teacher"}},
    }
    put(f"{base}/teacher/saved_model.pb", "graph")
    put(f"{base}/teacher/variables/data", "more")
    experiment = config.from_mapping(settings)
    here = located(experiment, tmp_path / "fetched")
    assert Path(here.validation.schema_file or "").read_text() == "feature {}"
    assert Path(here.model.weights).name == "net.weights.h5"
    assert here.train.distill is not None
    assert Path(here.train.distill.teacher, "variables", "data").read_text() == "more"
    assert here.data.path == f"{base}/data"
    assert experiment.validation.schema_file == f"{base}/schema.pbtxt"
    assert located(here, tmp_path / "fetched") is here


def test_files_of_commands(base, workspace, capsys) -> None:
    url = put(f"{base}/outcomes.csv", "prediction,label\n1,1\n2,1\n")
    (workspace / "serving" / "digits" / "1").mkdir(parents=True)
    place = ("--workspace", str(workspace))
    code, out, err = call("feedback", "digits", url, *place, capsys=capsys)
    assert (code, err) == (0, "")
    assert out.startswith("2 outcomes added")
    bad = put(f"{base}/bad.csv", "prediction\n1\n")
    code, _, err = call("feedback", "digits", bad, *place, capsys=capsys)
    assert code == 2 and bad in err and f"/{origins.FOLDER}/" not in err


def test_what_commands_write(base, workspace, capsys) -> None:
    place = ("--workspace", str(workspace))
    for command in (("report", "latest"), ("models", "card", "digits@1")):
        target = f"{base}/out/{command[0]}.html"
        code, out, _ = call(*command, "-o", target, *place, capsys=capsys)
        assert (code, out) == (0, f"{target}\n")
        files, path = fsspec.core.url_to_fs(target)
        assert files.cat_file(path).startswith(b"<!doctype html>")


def test_texts_call_copies_by_their_addresses(base, tmp_path) -> None:
    experiment = config.from_mapping(
        {"name": "e", "data": {"path": "x"}, "validation": {"schema_file": put(f"{base}/s.pbtxt", "")}}
    )
    file = located(experiment, tmp_path / "fetched").validation.schema_file
    assert origins.told(f"{file}, record 3") == f"{base}/s.pbtxt, record 3"
    assert origins.told("/a/b, record 3") == "/a/b, record 3"


def test_a_version_is_exported_to_an_address(base, workspace, monkeypatch, capsys) -> None:
    (workspace / "serving" / "digits" / "1").mkdir(parents=True)
    layout = (lambda _, name, path: path.write_text(name), ".zip")
    monkeypatch.setitem(export._LAYOUTS, "zip", layout)
    command = ("models", "export", "digits@1", "-o", f"{base}/m.zip", "--workspace", str(workspace))
    assert call(*command, capsys=capsys) == (0, f"{base}/m.zip\n", "")
    files, path = fsspec.core.url_to_fs(f"{base}/m.zip")
    assert files.cat_file(path) == b"digits@1"

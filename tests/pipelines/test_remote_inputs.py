"""data.path at an address: every format, folders of images, lists, globs and spans."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from components.example_gen import origins
from components.example_gen.sources import list_images
from pipelines import inputs, spans
from pipelines.config import Experiment
from pipelines.errors import InputError
from pipelines.runners import kubeflow

EXPECTED = {
    "csv": ("t.csv", "csv"), "tsv": ("t.tsv", "csv"), "parquet": ("t.parquet", "parquet"),
    "avro": ("t.avro", "avro"), "jsonl": ("t.jsonl", "jsonl"), "tfrecord": ("t.tfrecord", "tfrecord"),
}  # fmt: skip


@pytest.fixture
def base(tmp_path) -> str:
    return f"memory://{tmp_path.name}/data"


def put(base: str, *names: str) -> None:
    files, path = fsspec.core.url_to_fs(base)
    for name in names:
        files.pipe_file(f"{path}/{name}", name.encode())


def named(resolved: inputs.Resolved) -> list[str]:
    return [origins.name(source.path) for source in resolved.request.sources]


@pytest.mark.parametrize("ending", EXPECTED)
def test_files_of_every_format(ending: str, base, resolve) -> None:
    name, expected = EXPECTED[ending]
    put(base, name, "notes.txt", "deep/other.csv")
    for resolved in (resolve(path=f"{base}/{name}"), resolve(path=base), resolve(path=f"{base}/t.*")):
        assert resolved.request.format == expected
        assert named(resolved) == [f"{base}/{name}"]
        assert Path(resolved.request.sources[0].path).read_text() == name
    assert resolved.request.options["delimiter"] == ("\t" if ending == "tsv" else ",")


def test_a_folder_of_images_is_told_and_listed(base, resolve) -> None:
    put(base, "train/cat/1.jpg", "train/dog/2.PNG", "test/cat/3.jpg", "readme.md", ".DS_Store")
    resolved = resolve(path=base)
    assert resolved.request.format == "images"
    found, _ = list_images(Path(resolved.request.options["list"]))
    assert {(origins.name(item.path), item.split, item.label) for item in found} == {
        (f"{base}/train/cat/1.jpg", "train", "cat"),
        (f"{base}/train/dog/2.PNG", "train", "dog"),
        (f"{base}/test/cat/3.jpg", "test", "cat"),
    }


def test_a_list_of_images_brings_the_images(base, resolve) -> None:
    put(base, "a/1.jpg", "2.jpg", "unlisted.jpg")
    files, path = fsspec.core.url_to_fs(base)
    files.pipe_file(f"{path}/list.csv", b"file,label\na/1.jpg,cat\n2.jpg,dog\n")
    resolved = resolve(path=f"{base}/list.csv", format="images")
    found, _ = list_images(Path(resolved.request.options["list"]))
    assert {(origins.name(item.path), item.label) for item in found} == {
        (f"{base}/a/1.jpg", "cat"),
        (f"{base}/2.jpg", "dog"),
    }
    files.pipe_file(f"{path}/list.csv", b"file,label\nnone.jpg,cat\n")
    with pytest.raises(InputError, match="Nothing is there"):
        resolve(path=f"{base}/list.csv", format="images")


def test_spans(base, resolve, inputs_workspace) -> None:
    put(base, "span-1/v1/a.csv", "span-1/v2/a.csv", "span-2/v1/a.csv", "span-3/v1/a.csv")
    pattern = f"{base}/span-{{SPAN}}/v{{VERSION}}/*.csv"
    assert [(item.span, item.version) for item in spans.find(pattern)] == [(1, 1), (1, 2), (2, 1), (3, 1)]
    resolved = resolve(path=pattern, window=2, span=2)
    assert named(resolved) == [f"{base}/span-1/v2/a.csv", f"{base}/span-2/v1/a.csv"]
    assert resolved.request.split.test_span == 2
    assert [source.span for source in resolve(path=f"{base}/span-{{SPAN}}/v1").request.sources] == [3]
    fetched = [path for path in inputs_workspace.fetched.iterdir() if path.is_dir()]
    assert len(fetched) == 3, "spans that are not read are not fetched"


def test_the_digest_is_that_of_the_contents(base, resolve) -> None:
    put(base, "t.csv")
    first = resolve(path=base)
    assert resolve(path=base) == first
    files, path = fsspec.core.url_to_fs(base)
    files.pipe_file(f"{path}/t.csv", b"other")
    assert resolve(path=base).digest != first.digest
    put(base, "t.csv")
    assert resolve(path=base) == first


def test_nothing_of_use_is_there(base, resolve) -> None:
    put(base, "notes.txt")
    with pytest.raises(InputError, match="nothing that can be used is below"):
        resolve(path=base)
    with pytest.raises(InputError, match="no file matches"):
        resolve(path=f"{base}/*.csv")
    with pytest.raises(InputError, match="No file matches a path with spans"):
        resolve(path=f"{base}/{{SPAN}}.csv")


def test_a_cluster_takes_an_address_as_it_is(inputs_workspace) -> None:
    settings = {
        "name": "e",
        "data": {"path": "s3://bucket/photos"},
        "kubeflow": {"image": "i", "volume": {"claim": "c"}},
    }
    experiment = Experiment.model_validate(settings)
    kubeflow.check_for_cluster(experiment)
    assert kubeflow.parameters_here(experiment, inputs_workspace)["data_path"] == "s3://bucket/photos"

"""headrace predict against a running server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from components.serving import client
from pipelines.cli.main import main
from tests.components.serving.server import models
from tests.components.serving.server.running_server import Clients, free_ports, in_thread


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    root = tmp_path_factory.mktemp("served")
    models.classes(root / "classes" / "1")
    models.kinds(root / "kinds" / "1")
    with in_thread(model_root=str(root)) as clients:
        yield clients


def headrace(*arguments: Any) -> int:
    # TensorFlow is loaded, and the command would end the test process at once.
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr("pipelines.cli.main._exit", _raise_exit)
        main(["predict", *map(str, arguments)])
    return int(ended.value.code or 0)


def _raise_exit(code: int) -> Any:
    raise SystemExit(code)


def files(tmp_path: Path, **contents: bytes) -> list[Path]:
    paths = [tmp_path / name.replace("_", ".") for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_bytes(content)
    return paths


def test_images_as_a_table(served: Clients, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files(tmp_path, a_png=b"\xff\x00 not text", b_JPG=b"\xff")
    assert headrace("classes", *paths, "--rest-port", served.rest_port) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if str(tmp_path) in line]
    assert rows == [[str(paths[0]), "long", "0.7500"], [str(paths[1]), "short", "0.7500"]]


def test_json_output(served: Clients, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = files(tmp_path, a_png=b"123456")
    assert headrace("classes", path, "--rest-port", served.rest_port, "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"input": str(path), "scores": [0.75, 0.25], "classes": ["long", "short"]}
    ]


def test_a_csv_of_texts(served: Clients, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'id,text\n1,"a, long one"\n2,\u00e9\n'.encode()
    (path,) = files(tmp_path, a_csv=text)
    assert headrace("classes", path, "--rest-port", served.rest_port, "--output", "json") == 0
    answers = json.loads(capsys.readouterr().out)
    assert [(item["input"], item["scores"]) for item in answers] == [
        ("a, long one", [0.75, 0.25]),
        ("\u00e9", [0.25, 0.75]),
    ]
    assert headrace("classes", path, "--rest-port", served.rest_port, "--column", "id") == 0


def test_a_csv_of_pairs(served: Clients, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = files(tmp_path, a_csv=b"text,reply\na\tb,c\n,d\n")
    told = ("--rest-port", served.rest_port, "--output", "json", "--pair-column", "reply")
    assert headrace("kinds", path, "--signature", "texts", *told) == 0
    answers = json.loads(capsys.readouterr().out)
    assert [item["input"] for item in answers] == ["a b\tc", "\td"]


def test_lines_of_text(served: Clients, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = files(tmp_path, a_txt=b"a long line\n\nx\n")
    assert headrace("classes", path, "--rest-port", served.rest_port) == 0
    assert "a long line" in capsys.readouterr().out


def test_serialized_examples_in_several_requests(
    served: Clients, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.tfrecord.gz"
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for number in range(70):
            writer.write(b"x" * (number % 10))
    assert headrace("classes", path, "--rest-port", served.rest_port, "--output", "json") == 0
    answers = json.loads(capsys.readouterr().out)
    assert [item["input"] for item in answers] == [f"{path}:{number}" for number in range(70)]
    assert [item["scores"][0] > 0.5 for item in answers] == [number % 10 > 5 for number in range(70)]


def test_a_signature_by_name_and_outputs_without_classes(
    served: Clients, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = files(tmp_path, a_txt=b"word\n")
    assert headrace("kinds", path, "--signature", "texts", "--rest-port", served.rest_port) == 0
    assert '"WORD"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "name", "content", "more", "message"),
    [
        ("nope", "a_png", b"x", [], "Latest(nope)"),
        ("kinds", "a_png", b"x", [], "no signature 'predict_image'"),
        ("kinds", "a_txt", b"x", ["--signature", "text"], "Did you mean 'texts'?"),
        ("kinds", "a_txt", b"x", ["--signature", "matrix"], "does not take texts"),
        ("classes", "a_pdf", b"x", [], "Files of this kind cannot be sent: .pdf"),
        ("classes", "a_csv", b"id,body\n1,x\n", [], "There is no column 'text'"),
        ("classes", "a_csv", b"id,text\n1,x\n", ["--pair-column", "reply"], "no column 'reply'"),
        ("classes", "a_csv", b"text\n", [], "holds nothing to send"),
        ("classes", "a_csv", b"text\n\xff\n", [], "cannot be read"),
        (
            "classes",
            "a_tfrecord",
            b"not a TFRecord file, though long enough",
            [],
            "TFRecord file cannot be read",
        ),
    ],
)
def test_mistakes(
    served: Clients,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    model: str,
    name: str,
    content: bytes,
    more: list[str],
    message: str,
) -> None:
    paths = files(tmp_path, **{name: content})
    assert headrace(model, *paths, *more, "--rest-port", served.rest_port) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_missing_and_mixed_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert headrace("classes", tmp_path / "none.png") == 2
    assert "none.png" in capsys.readouterr().err
    assert headrace("classes", *files(tmp_path, a_png=b"x", b_txt=b"y")) == 2
    assert "All files must be of one kind" in capsys.readouterr().err


def test_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = files(tmp_path, a_png=b"x")
    assert headrace("classes", path, "--rest-port", free_ports()[0]) == 1
    error = capsys.readouterr().err
    assert "The server does not answer" in error
    assert "headrace serve" in error


def test_the_client_reads_states(served: Clients) -> None:
    assert client.ModelClient("127.0.0.1", served.rest_port).status("classes") == {1: "AVAILABLE"}
    with pytest.raises(client.ServerError, match="Could not find any versions") as caught:
        client.ModelClient("127.0.0.1", served.rest_port).status("no/pe")
    assert caught.value.status == 404

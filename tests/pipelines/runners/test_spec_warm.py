"""Containers that are forked from a warm process are processes like others."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.runners.spec_warm import ENTRY, WarmPython, start
from tests.conftest import ROOT

ENVIRONMENT = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmPython]:
    with WarmPython() as process:
        yield process


def call(folder: Path, text: str) -> list[str]:
    """The command of a node that writes a schema into a folder."""
    component = {
        "inputDefinitions": {"parameters": {"schema_text": {"parameterType": "STRING"}}},
        "outputDefinitions": {
            "artifacts": {"schema": {"artifactType": {"instanceSchema": "title: tfx.Schema"}}}
        },
    }
    schema = {"artifacts": [{"uri": "minio://b/p/run/Node/s/schema"}]}
    given = {
        "inputs": {"parameterValues": {"schema_text": text}, "artifacts": {}},
        "outputs": {"artifacts": {"schema": schema}, "outputFile": str(folder / "output.json")},
    }
    executor = "pipelines.runners.kfp_executors.CuratedSchema"
    return [
        *(*ENTRY, "--node", "Node", "--executor", executor, "--executor_input", json.dumps(given)),
        *("--component", json.dumps(component), "--path", f"outputs.schema={folder / 'schema'}"),
    ]


def test_a_node_runs_in_a_child(warm, tmp_path) -> None:
    process = warm.start(call(tmp_path, "x"), tmp_path, ENVIRONMENT, tmp_path / "log")
    assert process.wait(timeout=120) == 0, (tmp_path / "log").read_text()
    assert process.pid not in (0, os.getpid())
    assert (tmp_path / "schema" / "schema.pbtxt").read_text() == "x"
    assert "headrace: Node ended" in (tmp_path / "log").read_text()


def test_children_run_side_by_side_and_fail_alone(warm, tmp_path) -> None:
    folders = [tmp_path / name for name in ("good", "bad")]
    for folder in folders:
        folder.mkdir()
    good = warm.start(call(folders[0], "x"), folders[0], ENVIRONMENT, folders[0] / "log")
    # A file where its folder should be.
    (folders[1] / "schema").write_text("")
    bad = warm.start(call(folders[1], "x"), folders[1], ENVIRONMENT, folders[1] / "log")
    assert (good.wait(timeout=120), bad.wait(timeout=120)) == (0, 1)
    assert "FileExistsError" in (folders[1] / "log").read_text()


def test_other_commands_are_started_as_they_are(warm, tmp_path) -> None:
    command = ["sh", "-c", 'echo "$WORD" > said; exit 3']
    process = warm.start(command, tmp_path, {**ENVIRONMENT, "WORD": "hello"}, tmp_path / "log")
    assert process.wait(timeout=60) == 3
    assert (tmp_path / "said").read_text() == "hello\n"


def test_waiting_has_an_end(tmp_path) -> None:
    process = start(["sleep", "60"], tmp_path, ENVIRONMENT, tmp_path / "log")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.05)
    os.kill(process.pid, 9)
    assert process.wait(timeout=60) == -9

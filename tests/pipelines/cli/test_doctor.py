"""headrace doctor, --version and completion."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import doctor
from tests.conftest import ROOT


def cli(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli.main", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def found(name: str, workspace: Path) -> doctor.Finding:
    return next(item for item in doctor.examine(workspace) if item.name == name)


def test_it_finds_what_is_here(tmp_path) -> None:
    done = cli("doctor", "--workspace", str(tmp_path / "w"), "--output", "json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 0
    assert rows["Python"]["state"] == "ok"
    assert rows["Packages"]["found"].endswith("as in the lock")
    assert "not made yet" in rows["Workspace"]["found"]
    assert all(bool(row["cost"]) == (row["state"] != "ok") for row in rows.values())


def test_a_package_that_is_not_as_in_the_lock(tmp_path, monkeypatch) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("keras==1.0 \\\n    --hash=sha256:0\nno-such-package==2.0\n")
    monkeypatch.setattr(doctor, "LOCK", lock)
    finding = found("Packages", tmp_path)
    assert finding.state == "warning"
    assert "instead of 1.0, no-such-package missing instead of 2.0" in finding.found


@pytest.mark.parametrize("damage", ["text", "cut"])
def test_a_damaged_metadata_store_is_missing(tmp_path, damage) -> None:
    path = tmp_path / "metadata.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE Execution (id INTEGER, note TEXT)")
        connection.executemany("INSERT INTO Execution VALUES (?, ?)", [(n, "x" * 500) for n in range(100)])
    assert found("Metadata", tmp_path).found.startswith("100 executions")
    if damage == "text":
        path.write_text("no database" * 200)
    else:
        path.write_bytes(path.read_bytes()[:9000])
    assert found("Metadata", tmp_path).state == "missing"
    assert cli("doctor", "--workspace", str(tmp_path)).returncode == 1


def test_the_version_names_what_it_stands_on() -> None:
    lines = cli("--version").stdout.splitlines()
    assert lines[0].startswith("headrace ")
    assert {line.split()[0] for line in lines[1:]} == set(doctor.STACK)


@pytest.fixture
def workspace(tmp_path) -> Path:
    for folder in ("runs/digits-1", "runs/digits-2", "serving/digits/1", "serving/digits/2", "serving/.x"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("headrace exper", ["experiments"]),
        ("headrace run dig", ["digits"]),
        ("headrace show ", ["latest", "digits-2", "digits-1"]),
        ("headrace rollback ", ["digits"]),
        ("headrace why digits@", ["digits@2", "digits@1"]),
        ("headrace lineage digits-", ["digits-2", "digits-1"]),
        ("headrace run digits --wor", ["--workspace"]),
    ],
)
def test_completion_of_names(workspace, words, expected) -> None:
    count = len(words.split(" ")) - 1
    done = cli(
        COMP_WORDS=words,
        COMP_CWORD=str(count),
        _HEADRACE_COMPLETE="bash_complete",
        HEADRACE_WORKSPACE=str(workspace),
    )
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell) -> None:
    done = cli("completion", shell)
    assert done.returncode == 0
    assert "_HEADRACE_COMPLETE" in done.stdout
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=False).returncode == 0


def test_completion_imports_nothing_heavy(workspace) -> None:
    code = (
        "import sys\nfrom pipelines.cli.main import main\n"
        "try:\n    main([])\nexcept SystemExit:\n    pass\n"
        "print([n for n in ('tensorflow', 'tfx', 'apache_beam', 'keras', 'numpy') if n in sys.modules])\n"
    )
    environment = {"COMP_WORDS": "headrace show ", "COMP_CWORD": "2", "_HEADRACE_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", code.replace("main([])", "main(None)")],
        cwd=ROOT,
        env={**os.environ, **environment, "HEADRACE_WORKSPACE": str(workspace)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1] == "[]", done.stderr

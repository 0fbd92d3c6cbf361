"""lineage, diff, why, trace, models and report, from the command line, on recorded runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from pipelines.lineage.render import clock
from pipelines.lineage.sqlite import SqliteSource
from pipelines.lineage.store import ROLLBACK, Store
from tests.conftest import ROOT
from tests.pipelines.cli.test_main import call, exits_by_exception  # noqa: F401 fixture for all tests here


@pytest.fixture
def headrace_on(workspace, capsys):
    def go(*arguments: str) -> tuple[int, str, str]:
        return call(*arguments, "--workspace", str(workspace), capsys=capsys)

    return go


@pytest.fixture
def pushes(workspace):
    with SqliteSource(workspace / "metadata.db") as source:
        return source.pushes("digits")


def test_lineage_of_a_version(headrace_on) -> None:
    code, out, err = headrace_on("lineage", "digits@1")
    assert (code, err) == (0, "")
    assert out.startswith("digits@1: what made it\n└─ PushedModel digits@1")
    assert "/data/digits/1/part-3.csv" in out


def test_lineage_of_a_file_goes_down(headrace_on) -> None:
    code, out, _ = headrace_on("lineage", "/data/digits/1/part-0.csv")
    assert code == 0
    assert "what came of it" in out.splitlines()[0]
    assert re.search(r"^  Pushed: +digits@1", out, re.MULTILINE)
    up = headrace_on("lineage", "/data/digits/1/part-0.csv", "--up")[1]
    assert "nothing is recorded in this direction" in up


@pytest.mark.parametrize("output", ["json", "dot", "mermaid"])
def test_lineage_in_other_formats(headrace_on, output: str) -> None:
    code, out, _ = headrace_on("lineage", "latest", "--depth", "1", "--output", output)
    assert code == 0
    if output == "json":
        assert json.loads(out)["direction"] == "up"
    assert "Pusher" in out


@pytest.mark.parametrize(
    ("arguments", "headline"),
    [
        (("lineage", "digits@77"), "Error: Version 77 of 'digits' was never pushed"),
        (("lineage", "nothing/here.csv"), "Error: Nothing is known of 'nothing/here.csv'"),
        (("why", "digit@1"), "Error: There is no model 'digit'"),
        (("why", "digits"), "Error: Expected MODEL@VERSION. Received: 'digits'"),
        (("why", "digits@x"), "Error: Expected MODEL@VERSION. Received: 'digits@x'"),
        (("diff", "latest", "digits"), "Error: Several runs begin with 'digits'"),
        (("diff", "latest", "nonsense"), "Error: There is no run 'nonsense'"),
        (("trace", "--model", "digits", "--at", "sometime"), "Error: Expected a time. Received: 'sometime'"),
        (
            ("trace", "--model", "digits", "--at", "2001-01-01"),
            "Error: No version of 'digits' had been pushed",
        ),
        (("trace", "--model", "dgits", "--at", "now"), "Error: There is no model 'dgits'"),
        (("models", "dgits"), "Error: There is no model 'dgits'"),
        (("report", "nonsense"), "Error: There is no run 'nonsense'"),
    ],
)
def test_mistakes_exit_2_with_a_headline(headrace_on, arguments, headline: str) -> None:
    code, out, err = headrace_on(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(headline)


@pytest.mark.parametrize(
    "command",
    ["lineage latest", "diff a b", "why m@1", "trace --model m --at now", "models", "report latest"],
)
def test_a_folder_that_is_no_workspace(command: str, tmp_path, capsys) -> None:
    code, _, err = call(*command.split(), "--workspace", str(tmp_path / "empty"), capsys=capsys)
    assert code == 2
    assert "There is no workspace here yet" in err


def test_diff_tells_data_from_nothing(headrace_on, recorded) -> None:
    code, out, _ = headrace_on("diff", recorded.runs[0], recorded.runs[0])
    assert (code, out) == (0, "Nothing differs but times and costs.\n")
    code, out, _ = headrace_on("diff", recorded.runs[0], recorded.runs[1], "--output", "json")
    found = json.loads(out)
    assert code == 0
    assert found[0]["section"] == "data"
    code, out, _ = headrace_on("diff", recorded.runs[0], recorded.runs[1])
    assert code == 0 and "data" in out


def test_why_is_a_paragraph(headrace_on) -> None:
    code, out, _ = headrace_on("why", "digits@latest")
    assert code == 0
    assert re.match(r"digits@\d+ was trained on", out)
    assert "4 files in /data/digits/" in out


def test_trace_names_the_version_and_its_end(headrace_on, pushes, monkeypatch) -> None:
    first, second = pushes[:2]
    monkeypatch.setattr("pipelines.lineage.times.parse", lambda text, now: (first.at + second.at) / 2)
    code, out, _ = headrace_on("trace", "--model", "digits", "--at", "then")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("digits@1, made by run digits-")
    assert lines[1] == f"since  {clock(first.at)}, when it was pushed"
    assert lines[2] == f"until  {clock(second.at)}, when digits@2 was pushed"


def test_trace_and_lineage_know_of_rollbacks(headrace_on, pushes, workspace) -> None:
    newest, before = pushes[-1], pushes[-2]
    with Store(workspace / "metadata.db") as store:
        told = {"model": "digits", "to_version": before.version, "at": newest.at + 0.001, "reason": "slow"}
        done = store.begin_operation(
            ROLLBACK, told, {"in_service": [before.artifact], "withdrawn": [newest.artifact]}
        )
        store.end_operation(done, ok=True)
        cut_short = store.begin_operation(
            ROLLBACK, {**told, "to_version": 1}, {"in_service": [pushes[0].artifact]}
        )
        store.end_operation(cut_short, ok=False)
    out = headrace_on("trace", "--model", "digits", "--at", "now")[1]
    assert out.startswith(f"digits@{before.version}, made by run")
    assert f"since  {clock(newest.at + 0.001)}, when it was put in service (slow)" in out
    assert "HeadraceRollback" in headrace_on("lineage", newest.name, "--down")[1]


def test_trace_now_is_the_latest(headrace_on, pushes) -> None:
    code, out, _ = headrace_on("trace", "--model", "digits", "--at", "now")
    assert code == 0
    assert out.startswith(f"digits@{pushes[-1].version}, made by run")
    assert "until  now" in out


def test_models_are_listed_newest_first(headrace_on, pushes) -> None:
    code, out, _ = headrace_on("models", "digits")
    assert code == 0
    versions = [int(number) for number in re.findall(r"^ +digits +(\d+) +removed", out, re.MULTILINE)]
    assert versions == [push.version for push in reversed(pushes)]
    assert (
        len(re.findall(r"^ +\w+ +\d+ +removed", headrace_on("models", "--limit", "2")[1], re.MULTILINE)) == 2
    )


def test_runs_are_listed_newest_first(headrace_on, recorded) -> None:
    out = headrace_on("runs", "--limit", "3")[1]
    assert re.findall(r"^ +(\w+-\d{6}-\w{4})", out, re.MULTILINE) == recorded.runs[:-4:-1]


def test_report_goes_where_it_is_told(headrace_on, workspace, recorded) -> None:
    target = workspace / "new folder" / "r.html"
    code, out, _ = headrace_on("report", recorded.runs[0], "-o", str(target))
    assert (code, out.strip()) == (0, str(target))
    assert recorded.runs[0] in target.read_text()
    assert list(target.parent.iterdir()) == [target]
    code, out, _ = headrace_on("report", "latest")
    assert (workspace / f"reports/{recorded.runs[-1]}.html").exists()


def test_a_report_that_cannot_be_written(headrace_on, workspace) -> None:
    (workspace / "file").write_text("")
    code, _, err = headrace_on("report", "latest", "-o", str(workspace / "file" / "r.html"))
    assert code == 2
    assert "The report cannot be written" in err


@pytest.mark.parametrize(
    "command",
    ["lineage digits@1", "diff latest latest", "why digits@1", "trace --model digits --at now", "models",
     "report latest", "runs"],
)  # fmt: skip
def test_commands_that_ask_import_nothing_heavy(command: str, workspace) -> None:
    code = (
        "import sys\n"
        "from pipelines.cli.main import cli\n"
        f"cli.main({[*command.split(), '--workspace', str(workspace)]!r}, standalone_mode=False)\n"
        "heavy = [n for n in ('tensorflow', 'tfx', 'apache_beam', 'keras', 'pandas') if n in sys.modules]\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr

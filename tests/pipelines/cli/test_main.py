"""The command line: help, typing errors, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pipelines.cli.main import COMMANDS, main


def call(*arguments: str, capsys) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


@pytest.fixture(autouse=True)
def exits_by_exception(monkeypatch) -> None:
    """The real command ends at once where TensorFlow is loaded, as it may be in a test process."""
    monkeypatch.setattr("pipelines.cli.main._exit", lambda code: (_ for _ in ()).throw(SystemExit(code)))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_every_command_shows_an_example(command: str, capsys) -> None:
    code, out, _ = call(command, "--help", capsys=capsys)
    assert code == 0
    assert f"headrace {command}" in out


def test_a_mistyped_command_suggests_the_right_one(capsys) -> None:
    code, _, err = call("rnu", "digits", capsys=capsys)
    assert code == 2
    assert "There is no command 'rnu'. Did you mean 'run'?" in err


def test_an_unknown_experiment_exits_2_with_a_remedy(capsys) -> None:
    code, _, err = call("run", "digts", capsys=capsys)
    assert code == 2
    assert err.splitlines()[0] == "Error: There is no experiment 'digts'"
    assert "Did you mean 'digits'?" in err


@pytest.mark.parametrize(
    ("arguments", "headline"),
    [
        (("run", "digts", "--log-format", "json"), "There is no experiment 'digts'"),
        (("run", "digts", "--log-format=json"), "There is no experiment 'digts'"),
        (
            ("run", "--log-format", "json", "--no-such"),
            "No such option '--no-such'. Did you mean '--no-cache'?",
        ),
        (("serve", "--log_format=json", "--port=-1"), "port cannot be negative. Received: port=-1"),
    ],
)
def test_mistakes_are_lines_of_a_structured_log(arguments, headline: str, capsys) -> None:
    code, out, err = call(*arguments, capsys=capsys)
    assert (code, out) == (2, "")
    line = json.loads(err)
    assert (line["event"], line["level"], line["message"]) == ("error", "error", headline)
    assert {"time", "place", "remedy"} <= line.keys()


def test_the_environment_may_ask_for_a_structured_log(capsys, monkeypatch) -> None:
    monkeypatch.setenv("HEADRACE_LOG_FORMAT", "json")
    code, _, err = call("run", "digts", capsys=capsys)
    assert code == 2
    assert json.loads(err)["message"] == "There is no experiment 'digts'"


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["rnu"], 2)])
def test_a_crash_in_the_interpreters_shutdown_changes_no_exit_code(arguments: list[str], code: int) -> None:
    """As TensorFlow's libraries have crashed there; a module of its name stands for it."""
    program = (
        "import atexit, os, signal, sys, types\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGSEGV)\n"
        "sys.modules['tensorflow'] = types.ModuleType('tensorflow')\n"
        f"from pipelines.cli.main import main; main({arguments!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith("headrace ") is (code == 0)


def test_an_unknown_node_exits_2(headrace, tmp_path) -> None:
    done = headrace("run", "digits", "--workspace", str(tmp_path), "--to", "Trainr")
    assert done.code == 2
    assert "There is no node 'Trainr'" in done.err
    assert "Did you mean 'Trainer'?" in done.err


def test_starting_in_the_middle_needs_an_earlier_run(headrace, tmp_path) -> None:
    done = headrace("run", "digits", "--workspace", str(tmp_path), "--from", "Trainer")
    assert done.code == 2
    assert "No earlier run has the outputs" in done.err


def test_nothing_between_two_nodes(headrace, tmp_path) -> None:
    done = headrace("run", "digits", "--workspace", str(tmp_path), "--from", "Pusher", "--to", "Trainer")
    assert done.code == 2


@pytest.mark.parametrize("command", ["runs", "show latest"])
def test_a_workspace_that_is_none(command: str, tmp_path, capsys) -> None:
    code, _, err = call(*command.split(), "--workspace", str(tmp_path), capsys=capsys)
    assert code == 2
    assert "There is no workspace here yet" in err


def test_experiments_are_listed(capsys) -> None:
    code, out, _ = call("experiments", capsys=capsys)
    assert code == 0
    assert "digits" in out

"""What holds for every command: help that opens with a working example, exit codes, no colour in pipes."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from pipelines.cli.main import cli
from tests.conftest import ROOT
from tests.pipelines.cli.test_main import call, exits_by_exception  # noqa: F401 fixture for all tests here

Words = tuple[str, ...]


def walk(group: click.Group, before: Words = ()) -> Iterator[tuple[Words, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*before, name), command
        if isinstance(command, click.Group):
            yield from walk(command, (*before, name))


ALL = dict(walk(cli))
LEAVES = {words: command for words, command in ALL.items() if not isinstance(command, click.Group)}


def names(commands: dict[Words, click.Command]) -> list[str]:
    return [" ".join(words) for words in commands]


def examples_of(help_text: str) -> list[str]:
    """The lines below Example(s), which must be the second paragraph of the help."""
    paragraphs = help_text.split("\n\n")
    assert paragraphs[0].startswith("Usage: ")
    head, *lines = paragraphs[2].splitlines()
    assert head.strip() in ("Example:", "Examples:"), "an example comes right after the first sentence"
    return [line.strip() for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()]


@pytest.mark.parametrize("words", ALL, ids=names(ALL))
def test_help_opens_with_an_example_that_parses(words: Words, capsys) -> None:
    code, out, _ = call(*words, "--help", capsys=capsys)
    assert code == 0
    lines = examples_of(out)
    assert any(line.startswith(" ".join(["headrace", *words])) for line in lines)
    for line in lines:
        parse(shlex.split(line, comments=True))


def parse(given: list[str]) -> None:
    """Fails where an example names a command or option that there is not, or a value that cannot be."""
    ends = [given.index(word) for word in ("|", ">") if word in given]
    assert given[0] == "headrace", given
    command: click.Command = cli
    rest = given[1 : min(ends, default=len(given))]
    context = click.Context(cli, info_name="headrace")
    while isinstance(command, click.Group):
        if not rest or rest[0] not in command.list_commands(context):
            assert hasattr(command, "default"), f"no command in {given}"
            rest = [command.default, *rest]
        found = command.get_command(context, rest[0])
        assert found is not None, given
        command, rest = found, rest[1:]
    context = click.Context(command, info_name=command.name)
    options, _, _ = command.make_parser(context).parse_args(list(rest))
    for param in command.params:
        value = options.get(param.name or "")
        if isinstance(value, str | tuple | list) and not isinstance(param.type, click.Path):
            param.type_cast_value(context, value)
        elif isinstance(param, click.Argument):
            assert value or not param.required, f"{param.name} is missing in {given}"


@pytest.mark.parametrize("words", LEAVES, ids=names(LEAVES))
def test_an_option_that_there_is_not_exits_2(words: Words, capsys) -> None:
    code, out, err = call(*words, "--no-such-option", capsys=capsys)
    assert (code, out) == (2, "")
    assert "No such option" in err


# What a user may get wrong in each command; {empty} is an empty folder, {workspace} one with runs.
MISTAKES = {
    "experiments": "--output xml",
    "init": "{empty}/new --from nonsense",
    "run": "nonsense --workspace {empty}",
    "compile": "nonsense -o {empty}/x.yaml",
    "run-spec": "{empty}/nothing.yaml --workspace {empty}",
    "submit": "digits",
    "schedule kfp": "--list --endpoint http://127.0.0.1:9",
    "image build": "'bad name'",
    "image push": "'bad name'",
    "runs": "--workspace {empty}",
    "show": "nonsense --workspace {workspace}",
    "candidates": "nonsense --workspace {workspace}",
    "rewrite": "{empty}/none --data {empty}/none.npz",
    "report": "nonsense --workspace {workspace}",
    "ui": "--workspace {empty}",
    "profile": "nonsense --workspace {workspace}",
    "data check": "{empty}/nothing --workspace {empty}",
    "data stats": "nonsense --workspace {workspace}",
    "schema init": "nonsense -o {empty}/s.pbtxt --workspace {workspace}",
    "schema diff": "{empty}/none.pbtxt latest --workspace {workspace}",
    "schema accept": "{empty}/none.pbtxt latest --workspace {workspace}",
    "explain-cache": "nonsense --workspace {workspace}",
    "serve": "--model_name m --model_base_path {empty} --port 8501 --rest-port 8501",
    "predict": "digits {empty}/none.png",
    "bulk": "digits {empty} {empty}/out --workspace {workspace}",
    "models list": "nonsense --workspace {workspace}",
    "models card": "nonsense@1 --workspace {workspace}",
    "models sign": "digits@1 --key {empty}/none.pem --workspace {workspace}",
    "models verify": "{empty}/nothing --key {empty}/none.pub",
    "models export": "digits --workspace {workspace}",
    "models prune": "nonsense --keep 1 --workspace {workspace}",
    "rollback": "nonsense --workspace {workspace}",
    "gc": "--workspace {empty}",
    "cost": "--workspace {empty}",
    "reproduce": "nonsense@1 --workspace {workspace}",
    "retrain run": "digits --workspace {empty}",
    "retrain status": "nonsense --workspace {workspace}",
    "retrain history": "nonsense --workspace {workspace}",
    "retrain explain": "digits no-round --workspace {workspace}",
    "retrain reset": "nonsense --workspace {workspace}",
    "retrain install": "digits --kubernetes --workspace {workspace}",
    "feedback": "nonsense {empty}/none.csv --workspace {workspace}",
    "why": "nonsense@1 --workspace {workspace}",
    "lineage": "nonsense@1 --workspace {workspace}",
    "trace": "--model nonsense --at now --workspace {workspace}",
    "schema-file": "-o {empty}/no/such/folder/x.json",
    "doctor": "--output xml",
    "completion": "tcsh",
    "diff": "nonsense latest --workspace {workspace}",
}

WELL = {
    "experiments": "",
    "init": "{empty}/new",
    "runs": "--workspace {workspace}",
    "report": "latest --workspace {workspace}",
    "models list": "--workspace {workspace}",
    "models card": "digits@1 --workspace {workspace}",
    "gc": "--dry-run --workspace {workspace}",
    "cost": "--workspace {workspace}",
    "retrain history": "digits --workspace {workspace}",
    "why": "digits@1 --workspace {workspace}",
    "lineage": "digits@1 --workspace {workspace}",
    "trace": "--model digits --at now --workspace {workspace}",
    "schema-file": "",
    "completion": "bash",
    "diff": "latest latest --workspace {workspace}",
}
"""Calls that answer within a second; those of commands that work are in their own tests."""


@pytest.fixture
def filled(workspace, tmp_path_factory):
    folders = {"empty": str(tmp_path_factory.mktemp("empty")), "workspace": str(workspace)}

    def fill(command: str, arguments: str) -> list[str]:
        return [*command.split(), *shlex.split(arguments.format(**folders))]

    return fill


def test_the_table_of_mistakes_has_every_command() -> None:
    assert sorted(MISTAKES) == sorted(names(LEAVES))


@pytest.mark.parametrize("command", MISTAKES)
def test_a_mistake_exits_2_and_says_so(command: str, filled, capsys) -> None:
    code, out, err = call(*filled(command, MISTAKES[command]), capsys=capsys)
    assert (code, out) == (2, "")
    assert "Error: " in err and "Traceback" not in err and "Unexpected" not in err


@pytest.mark.parametrize("command", WELL)
def test_what_goes_well_exits_0_without_colours(command: str, filled, capsys) -> None:
    code, out, err = call(*filled(command, WELL[command]), capsys=capsys)
    assert (code, err) == (0, "")
    assert out and "\x1b" not in out


def lists(command: str) -> bool:
    return any(
        param.name == "output" and "json" in str(param.type)
        for param in LEAVES[tuple(command.split())].params
    )


@pytest.mark.parametrize("command", [command for command in WELL if lists(command)])
def test_the_environment_says_how_to_list(command: str, filled, capsys, monkeypatch) -> None:
    monkeypatch.setenv("HEADRACE_OUTPUT", "json")
    json.loads(call(*filled(command, WELL[command]), capsys=capsys)[1])
    monkeypatch.setenv("HEADRACE_OUTPUT", "csv")
    heading = call(*filled(command, WELL[command]), capsys=capsys)[1].splitlines()[0]
    assert re.fullmatch(r"[a-z_0-9]+(,[a-z_0-9]+)*", heading)


def test_a_check_of_what_is_not_there_lists_nothing(tmp_path, capsys) -> None:
    place = ("--workspace", str(tmp_path / "w"))
    code, out, err = call("data", "check", str(tmp_path / "no"), "--output", "json", *place, capsys=capsys)
    assert (code, out) == (2, "")
    assert "The data path does not exist" in err


def test_a_server_that_does_not_answer_exits_1(tmp_path, png, capsys) -> None:
    (tmp_path / "a.png").write_bytes(png())
    code, _, err = call("predict", "digits", str(tmp_path / "a.png"), "--rest-port", "9", capsys=capsys)
    assert code == 1
    assert err.startswith("Error: ")


COLOUR = re.compile(rb"\x1b\[([\d;]*;)?(3[0-8]|9[0-7])[;m]")


@pytest.mark.parametrize(("extra", "coloured"), [({"NO_COLOR": "1"}, False), ({}, True)])
def test_no_colour_on_a_terminal_where_it_is_not_wanted(extra, coloured: bool, workspace) -> None:
    for words in (["runs"], ["show", "nonsense"]):
        out = on_a_terminal([*words, "--workspace", str(workspace)], extra)
        assert b"run" in out
        assert bool(COLOUR.search(out)) == coloured


def on_a_terminal(words: list[str], extra: dict[str, str]) -> bytes:
    """All that a command writes where its output is a terminal."""
    ours, theirs = pty.openpty()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", **extra}
    command = [sys.executable, "-m", "pipelines.cli.main", *words]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment):
        os.close(theirs)
        written = b""
        try:
            while data := os.read(ours, 65536):
                written += data
        except OSError:  # how Linux says that the other side is closed
            pass
    os.close(ours)
    return written

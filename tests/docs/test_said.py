"""What the pages say, held against the code: commands, options, settings, headlines, variables."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pipelines import config
from pipelines.cli.main import COMMANDS, cli
from pipelines.errors import ConfigError
from tests.conftest import ROOT
from tests.docs.pages import DOCS, PAGES, blocks, name_of

every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def in_blocks(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Where a command stands, and its words."""
    for block in blocks(page, "bash"):
        for line in str(block.parsed).replace("\\\n", " ").splitlines():
            for found in re.findall(r"(?:^|[\s($!])headrace ([^|;&>)]*)", line.split(" #")[0]):
                yield f"{name_of(page)}:{block.line}", shlex.split(found.strip().rstrip('"'))


def in_text(page: Path) -> Iterator[tuple[str, list[str]]]:
    """The same of code in running text."""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        for found in re.findall(r"`headrace ([a-z][^`]*)`", line):
            yield f"{name_of(page)}:{number}", found.replace("'", "").replace('"', "").split()


def descend(words: Sequence[str]) -> tuple[list[click.Command], list[str]]:
    """The command that is meant, with those that it may stand for, and what is left of the words."""
    commands: list[click.Command] = [cli]
    left = list(words)
    while isinstance(commands[0], click.Group) and left and not left[0].startswith("-"):
        group = commands[0]
        found = [group.get_command(click.Context(group), name) for name in re.split(r"\\?\|", left[0])]
        if not all(found):
            break  # a group that takes the arguments of its own main command
        commands = [item for item in found if item]
        left = left[1:]
    return commands, left


def options_of(commands: Sequence[click.Command]) -> set[str]:
    names = {"--help", "-h", "--debug"}
    for command in commands:
        for parameter in command.params:
            names |= {*parameter.opts, *parameter.secondary_opts}
        if isinstance(command, click.Group):
            context = click.Context(command)
            inner = [command.get_command(context, name) for name in command.list_commands(context)]
            names |= options_of([item for item in inner if item])
    return names


@every_page
def test_commands_and_their_options_exist(page: Path) -> None:
    wrong = []
    for place, words in [*in_blocks(page), *in_text(page)]:
        if words and words[0].isupper():
            continue  # `headrace COMMAND --help`
        commands, left = descend(words)
        if commands == [cli]:
            wrong.append(f"{place}: there is no command {words[0]!r}" if words[:1] else "")
        known = options_of(commands)
        given = [word.split("=")[0] for word in left if re.match(r"--?[a-z]", word)]
        wrong += [f"{place}: {' '.join(words)}: there is no {name}" for name in given if name not in known]
    assert [item for item in wrong if item] == []


@every_page
def test_experiments_and_parts_of_them_are_understood(page: Path) -> None:
    """YAML blocks whose keys are an experiment's: as a whole, or over a least one."""
    for block in blocks(page, "yaml"):
        found: Any = yaml.safe_load(str(block.parsed))
        if not isinstance(found, dict) or not found.keys() <= config.Experiment.model_fields.keys():
            continue
        try:
            config.from_mapping({"name": "example", "data": {"path": "rows/"}, **found})
        except ConfigError as error:
            pytest.fail(f"{name_of(page)}:{block.line}: {error}")


def test_troubleshooting_is_about_headlines_that_exist() -> None:
    sys.path.insert(0, str(DOCS / "_extensions"))
    try:
        import headlines
    finally:
        sys.path.pop(0)
    known = {headlines.with_stars(item.headline) for item in headlines.all_of(ROOT)}
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    written = re.findall(r"^### (.+)$", page, re.MULTILINE)
    shown = {re.sub(r"\*.+?\*", "*", heading) for heading in written} - {"Anomalies and drift"}
    assert len(shown) > 15
    assert {item for item in shown if not any(same(item, one) for one in known)} == set()


def same(heading: str, headline: str) -> bool:
    """Whether a headline begins as a heading does: what is filled in may hold anything, or nothing."""
    pattern = ".*".join(re.escape(part) for part in heading.split("*"))
    return re.fullmatch(pattern, headline) is not None


def test_every_variable_of_the_environment_is_on_its_page() -> None:
    page = (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
    sources = [
        path for package in ("pipelines", "components", "modules") for path in (ROOT / package).rglob("*.py")
    ]
    used = {
        name
        for path in sources
        for name in re.findall(r"HEADRACE_[A-Z_]*[A-Z]", path.read_text(encoding="utf-8"))
    }
    assert {name for name in used if f"`{name}`" not in page} == set()


def test_every_command_is_named_in_a_guide() -> None:
    guides = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert [name for name in COMMANDS if f"headrace {name}" not in guides] == []

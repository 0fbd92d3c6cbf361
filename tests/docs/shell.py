"""The blocks of a page, run one after another in one shell, as a reader would.

with Shell(folder) as shell:
    run_page(page, shell)

A `bash` block is run where the ones before it left the shell; a `python` block is a
program of its own; a `yaml` block that begins with `# name.yaml` is written to that
file. `<!-- skip: next "why" -->` leaves a block out, `<!-- exits: 0 1 -->` lets the
next one end with either code, and `<!-- invisible-code-block: python ... -->` is run
and not shown.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from unittest import SkipTest

from sybil import Document
from sybil.example import Example
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from tests.components.serving.server.running_server import free_ports
from tests.conftest import ROOT

_HEADRACE = """#!/bin/sh
# The command with ports of its own: what a user says comes behind, and holds.
case "$1" in
  serve) shift; set -- serve --port {grpc} --rest-port {rest} "$@" ;;
  predict) shift; set -- predict --rest-port {rest} "$@" ;;
esac
exec {python} -m pipelines.cli.main "$@"
"""
_EXITS = re.compile(r"<!-- exits: ([\d ]+) -->\s*(?:<!-- skip.*-->\s*)?$")


class BlockError(AssertionError):
    """A block that did not end as it should."""


class Shell:
    """A bash with `headrace` on its path, in a folder that holds `docs/`.

    With a workspace, that is `workspace/` there. It goes by its own name for the commands: a path through a
    link would be another path to the cache.
    """

    def __init__(self, folder: Path, workspace: Path | None = None, timeout_s: float = 1800) -> None:
        self._folder, self._timeout_s = folder, timeout_s
        self._grpc, self._rest = free_ports()
        hidden = folder / ".block"
        hidden.mkdir()
        self._script, self._said = hidden / "block", hidden / "said"
        command = hidden / "headrace"
        command.write_text(_HEADRACE.format(grpc=self._grpc, rest=self._rest, python=sys.executable))
        command.chmod(0o755)
        (folder / "docs").symlink_to(ROOT / "docs")
        environment = {}
        if workspace is not None:
            (folder / "workspace").symlink_to(workspace)
            environment["HEADRACE_WORKSPACE"] = str(workspace)
        path = f"{hidden}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            bufsize=1,
            start_new_session=True,
            env={
                **os.environ,
                **environment,
                "PATH": path,
                "PYTHONPATH": str(ROOT),
                "TF_CPP_MIN_LOG_LEVEL": "2",
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)  # servers that a page has left running
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def bash(self, text: str, codes: Sequence[int] = (0,)) -> str:
        """Runs a block and returns what it said.

        Raises:
            BlockError: one of its commands ended with another code.
        """
        self._script.write_text(self._with_ports(text) + "\n")
        said = self._run(f"trap 'failed=$?' ERR; . {self._script}", codes)
        if re.search(r"\bheadrace serve\b.*&\s*$", text, re.MULTILINE):
            self._wait_for_server()
        return said

    def python(self, text: str) -> str:
        """Runs a block as a program.

        Raises:
            BlockError: it failed.
        """
        self._script.write_text(self._with_ports(text))
        return self._run(f"{sys.executable} {self._script} || failed=$?", (0,))

    def yaml(self, text: str) -> None:
        """Writes a block to the file that its first line names."""
        named = re.match(r"# ([\w-]+\.yaml)\b", text)
        if named:
            (self._folder / named.group(1)).write_text(text)

    def _run(self, command: str, codes: Sequence[int]) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(
            f"failed=0; {{ {command}; }} >{self._said} 2>&1; trap - ERR; echo done $failed\n"
        )
        line = self._process.stdout.readline()
        said = self._said.read_text(errors="replace")
        if not line:
            raise BlockError(f"The shell has ended\n{said[-4000:]}")
        code = int(line.split()[1])
        if code not in codes:
            raise BlockError(f"exit code {code}\n{said[-4000:]}")
        return said

    def _with_ports(self, text: str) -> str:
        return text.replace("8500", str(self._grpc)).replace("8501", str(self._rest))

    def _wait_for_server(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        while time.monotonic() < deadline:
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self._rest)) == 0:
                    return
            time.sleep(0.2)
        raise BlockError(f"The server does not listen\n{self._said.read_text()[-4000:]}")


def run_page(page: Path, shell: Shell) -> int:
    """Runs a page's blocks in order, and returns how many were run or written.

    Raises:
        BlockError: one failed; it says where.
    """

    done = []

    def bash(example: Example) -> None:
        before = example.document.text[: example.region.start]
        codes = _EXITS.search(before)
        shell.bash(str(example.parsed), [int(code) for code in codes.group(1).split()] if codes else (0,))
        done.append(example)

    def python(example: Example) -> None:
        shell.python(str(example.parsed))
        done.append(example)

    def yaml(example: Example) -> None:
        shell.yaml(str(example.parsed))
        done.append(example)

    evaluators = {"bash": bash, "python": python, "yaml": yaml}
    parsers = [CodeBlockParser(language, evaluate) for language, evaluate in evaluators.items()]
    for example in Document.parse(str(page), SkipParser(), *parsers).examples():
        try:
            example.evaluate()
        except SkipTest:
            continue
        except BlockError as error:
            raise BlockError(f"{page}, line {example.line}: {error}") from None
    return len(done)

"""The image that a cluster runs: built and pushed by docker or buildah.

    run(build_command(find_tool(), "registry/headrace:1", gpu=False, base=None))

Where neither is there (or docker has no daemon to talk to), the error says
what to run on a machine that has one.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import ConfigError, HeadraceError, NodeFailedError
from pipelines.fingerprint import PROJECT

TOOLS = ("docker", "buildah")
DOCKERFILE = Path("kubeflow", "Dockerfile")

_NAME = re.compile(
    r"(?:[a-z0-9.-]+(?::\d+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
)
_TIMEOUT_S = 20.0


class ToolMissingError(HeadraceError):
    """No program here can build or push images."""


def check_name(name: str) -> str:
    """The name, where a registry could take it.

    Raises:
        ConfigError: it has no tag, or is none at all.
    """
    if not _NAME.fullmatch(name) or ":" not in name.rsplit("/", 1)[-1]:
        raise ConfigError(
            f"Expected registry/name:tag. Received: {name!r}",
            place="IMAGE",
            remedy="For example registry.example.com/headrace:1; a tag that stays makes runs repeatable.",
        )
    return name


def usable_tool() -> str | None:
    """The first program that is here and works; docker's needs its daemon."""
    for tool in TOOLS:
        if shutil.which(tool) is None:
            continue
        try:
            done = subprocess.run([tool, "info"], capture_output=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return tool
    return None


def build_command(tool: str, name: str, *, gpu: bool, base: str | None) -> list[str]:
    """The command that builds the image, to be run in the project's folder."""
    arguments = ["--build-arg", f"GPU={int(gpu)}"]
    if base:
        arguments += ["--build-arg", f"BASE={base}"]
    return [tool, "build", "-f", str(DOCKERFILE), *arguments, "-t", name, "."]


def push_command(tool: str, name: str) -> list[str]:
    """The command that pushes it."""
    return [tool, "push", name]


def context() -> Path:
    """The folder that the image is built from.

    Raises:
        ConfigError: this is an installed copy, without a Dockerfile.
    """
    if not (PROJECT / DOCKERFILE).is_file():
        raise ConfigError(
            "An image is built from a checkout of Headrace; this is an installed copy",
            place=str(PROJECT),
            remedy="Clone the repository and run headrace image there.",
        )
    return PROJECT


def run(commands: Sequence[Sequence[str]], folder: Path) -> None:
    """Runs commands on the terminal.

    Raises:
        NodeFailedError: one failed; its own words stand above.
    """
    for command in commands:
        done = subprocess.run(list(command), cwd=folder, check=False)
        if done.returncode:
            raise NodeFailedError(
                f"{command[0]} {command[1]} ended with code {done.returncode}", place=shlex.join(command)
            )


def missing(commands: Sequence[Sequence[str]], folder: Path) -> ToolMissingError:
    """The error where no tool is usable: what to run elsewhere."""
    lines = " && ".join(shlex.join(command) for command in commands)
    return ToolMissingError(
        "Neither docker (with a daemon) nor buildah is here to do that",
        place=str(folder),
        remedy=f"On a machine that has one, in a checkout of this project: {lines}",
    )

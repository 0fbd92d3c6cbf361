"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from pipelines.workspace import default_root


def workspace_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--workspace DIR."""
    return click.option(
        "--workspace",
        "root",
        default=default_root,
        show_default="workspace, or HEADRACE_WORKSPACE",
        metavar="DIR",
        help="Folder that holds metadata.db, artifacts/, serving/ and runs/.",
    )(function)

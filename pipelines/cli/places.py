"""Paths of arguments, which may be addresses (s3://, gs://, https://).

@click.argument("file", type=InputPath())              # a local copy for the length of the command
with writing(target) as path: ...                      # uploaded when the block ends well
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import click

from components.example_gen.origins import FOLDER, name
from pipelines import remote
from pipelines.remote import written as writing

__all__ = ["InputPath", "writing"]


class InputPath(click.Path):
    """As `click.Path`, giving a Path; what is at an address is fetched first, and removed at the end."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(path_type=Path, **settings)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and remote.is_remote(value) and ctx is not None:
            scratch = Path(tempfile.mkdtemp(prefix="headrace-"))
            ctx.find_root().call_on_close(lambda: shutil.rmtree(scratch, ignore_errors=True))
            value = remote.fetch(value, scratch / FOLDER, remote.everything)
            name(str(value))  # looked up now: errors are told when the copy is gone
        return super().convert(value, param, ctx)

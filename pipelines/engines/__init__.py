"""Distributed engines that Beam's parts run on: what they are told, and what is looked at before.

arguments = for_run(experiment, workspace.root)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.beam_stage import Beam
    from pipelines.config import Experiment


def for_run(experiment: Experiment, folder: Path) -> list[str]:
    """Beam's options for the nodes of a run; see `prepare.prepare`.

    Raises:
        EngineError: the engine cannot be reached, does not fit, or has too little room.
    """
    from pipelines.engines import sizing
    from pipelines.user_code import modules_of

    return for_folder(experiment.beam, folder, sizing.size_of(experiment.data.path), modules_of(experiment))


def for_folder(beam: Beam, folder: Path, size: int | None, user_modules: Sequence[str] = ()) -> list[str]:
    """The same for jobs that read and write below a folder; `size` is that of what they read, in bytes.

    Raises:
        EngineError: see `for_run`.
    """
    from pipelines.engines import prepare

    return prepare.prepare(beam, folder, user_modules, size)

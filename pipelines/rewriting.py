"""What `headrace rewrite` does: a request from options, the rewrite, and its summary.

summary = run(request(model, data, settings), scratch, target)
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.errors import UserError
from components.rewriter.catalogue import IDENTITY as IDENTITY
from components.rewriter.catalogue import LOADS, TECHNIQUES
from components.serving.servable import version_folder
from components.serving.triton import CONFIG_FILE
from modules import contract as names
from pipelines.errors import ConfigError, HeadraceError, InputError, nearest
from pipelines.summary import Summary


def new_folder(folder: Path) -> Path:
    """Checks that a folder can be made.

    Raises:
        InputError: something is there.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            "The output is there already", place=str(folder), remedy="Name a new folder with --to."
        )
    return folder


def request(model: Path, data: Path, settings: Mapping[str, Any]) -> Any:
    """What the Rewriter is asked, from the command's options.

    Raises:
        ConfigError: a candidate is unknown, or the target does not load it.
    """
    candidates = _candidates(settings["candidates"], settings["target"])
    from components.rewriter import rewrite
    from components.rewriter.anywhere import Request
    from components.rewriter.base import Contract
    from components.rewriter.choose import Policy, Remedies

    return Request(
        model=model,
        data=data,
        signature=settings["signature"],
        label=settings["label"],
        ours=Contract(
            core=names.CORE_FUNCTION,
            class_names=names.CLASS_NAMES_FUNCTION,
            preprocessing=names.PREPROCESSING_MODULE,
            signatures={},
            scores=names.OUTPUT_SCORES,
            classes=names.OUTPUT_CLASSES,
            keras_model=names.KERAS_MODEL,
            modules=tuple(module for listed in names.LAYER_MODULES.values() for module in listed),
        ),
        signatures=names.PREPROCESS_FUNCTIONS,
        values=names.OUTPUT_VALUES,
        candidates=candidates,
        target=settings["target"],
        policy=Policy(
            settings["objective"],
            settings["max_drop"],
            settings["confidence"],
            settings["max_slice_drop"],
            remedies=Remedies("give more examples with --data", "", "widen --max-drop", "--max-drop"),
        ),
        limits=rewrite.limits(settings["timeout"], settings["memory"]),
    )


def _candidates(text: str, target: Any) -> list[str] | None:
    if text == "auto":
        return None
    chosen = [name.strip() for name in text.split(",")]
    for name in chosen:
        if name not in TECHNIQUES:
            raise ConfigError(
                f"There is no technique {name!r}", place="--candidates", remedy=nearest(name, TECHNIQUES)
            )
        if TECHNIQUES[name].runtime not in LOADS[target]:
            raise ConfigError(
                f"The target {target} does not load {name}",
                place="--candidates",
                remedy="Name another with --target.",
            )
    return chosen


def run(asked: Any, scratch: Path, target: Path | None) -> Summary:
    """Rewrites, and copies what was chosen to `target`, as its server loads it; the original is not copied.

    Raises:
        InputError: the model or the data cannot be used.
        HeadraceError: a candidate's process was ended from outside, or the target cannot be written.
    """
    from components.rewriter import anywhere, rewrite

    try:
        job = anywhere.prepare(asked, scratch)
        outcome = rewrite.rewrite(job)
    except UserError as error:
        raise InputError(error.headline, place=error.place, remedy=error.remedy) from error
    except rewrite.CandidateKilledError as error:
        raise HeadraceError(f"A candidate's process was ended: {error}") from error
    if target is not None and outcome.chosen != IDENTITY:
        _copy(_laid_out(version_folder(job.scratch / outcome.chosen), scratch / "to"), target)
    rows = [verdict.to_json() for verdict in outcome.verdicts]
    return Summary(candidates=rows, chosen=outcome.chosen, reason=outcome.reason)


def _laid_out(version: Path, empty: Path) -> Path:
    """The folder to copy: a version; for Triton a model, with its configuration beside version 1."""
    if not (version / CONFIG_FILE).exists():
        return version
    empty.mkdir()
    version.rename(empty / "1")
    shutil.copy(empty / "1" / CONFIG_FILE, empty)
    return empty


def _copy(source: Path, target: Path) -> None:
    """Copies a folder; where that fails, half of it is not left for a server to load.

    Raises:
        HeadraceError: it cannot be written.
    """
    was_there = target.exists()
    try:
        shutil.copytree(source, target, dirs_exist_ok=True)
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if was_there:
            target.mkdir(exist_ok=True)
        if not isinstance(error, OSError):
            raise
        # Of several files that failed, shutil.Error lists source, target and reason.
        why = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror
        raise HeadraceError(f"The chosen model cannot be written: {why}", place=str(target)) from error

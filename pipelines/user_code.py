"""Modules of the user's own that an experiment names by dotted path.

modules = modules_of(experiment)     # ["network"]
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pipelines import fingerprint
from pipelines.config import Experiment
from pipelines.errors import InputError


def modules_of(experiment: Experiment) -> list[str]:
    """The modules that the experiment's `model.name` and `train.strategy` name; nothing is imported.

    Raises:
        InputError: there is no such module in this folder or among the installed packages.
    """
    named = {"model.name": experiment.model.name, "train.strategy": experiment.train.strategy}
    found = []
    for place, path in named.items():
        module = path.rpartition(".")[0]
        if module:
            _check(module, path, place)
            found.append(module)
    return found


def _check(module: str, path: str, place: str) -> None:
    top = module.split(".")[0]
    if module in fingerprint.closure([module]) or importlib.util.find_spec(top) is not None:
        return
    raise InputError(
        f"There is no module {module!r}",
        place=f"{place}: {path}",
        remedy=f"Run in the folder that holds {top}.py; this is {Path.cwd()}.",
    )

"""Code of the user's that an experiment names by dotted path.

build = function("my_network.build", "model.name")
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from modules.errors import TrainingError


def function(path: str, place: str) -> Callable[..., Any]:
    """Imports `module.function` from the folder the command was started in, or any installed package.

    Args:
        path: dotted.
        place: the key of the experiment that names it, for messages.

    Raises:
        TrainingError: no such module, or nothing callable of that name in it.
    """
    module, _, name = path.rpartition(".")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise  # the module is there, and lacks something itself
        raise TrainingError(
            f"There is no module {module!r}",
            place=f"{place}: {path}",
            remedy=f"Run in the folder that holds {module.split('.')[0]}.py. This is {here}.",
        ) from error
    except AttributeError as error:
        raise TrainingError(
            f"The module {module!r} has no {name!r}", place=f"{place}: {path}", remedy="Check the name."
        ) from error
    if not callable(found):
        raise TrainingError(f"{path} is no function", place=place)
    return found

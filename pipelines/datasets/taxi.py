"""Chicago taxi trips: 15,002 rows that come inside the installed tfx package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from pipelines.errors import InputError

_INSIDE_TFX = Path("examples", "chicago_taxi_pipeline", "data", "big_tipper_label", "data.csv")


def path() -> Path:
    """The CSV file, whose column `big_tipper` is 1 where the tip was over a fifth of the fare.

    Raises:
        InputError: this tfx has no such file.
    """
    spec = importlib.util.find_spec("tfx")
    found = Path(spec.origin).parent / _INSIDE_TFX if spec and spec.origin else None
    if found is None or not found.is_file():
        raise InputError(
            "The taxi trips are not inside the installed tfx",
            place=str(found or "tfx"),
            remedy="Install the locked version (make setup), or give data.path.",
        )
    return found

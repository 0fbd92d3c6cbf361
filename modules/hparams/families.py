"""What is common to the families of models."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from modules.hparams.image import ImageInputHparams
from modules.hparams.tabular import TabularInputHparams
from modules.hparams.text import TextInputHparams


def field_names(hparams: type[Any]) -> tuple[str, ...]:
    """The names of a hyperparameter class's fields, in order."""
    return tuple(item.name for item in fields(hparams))


INPUT_HPARAMS: dict[str, type[Any]] = {
    "image": ImageInputHparams,
    "tabular": TabularInputHparams,
    "text": TextInputHparams,
}
"""Family of models -> what its Transform is told."""

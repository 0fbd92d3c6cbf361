"""Begins a training with the weights of an earlier one.

load(model, fn_args.base_model)
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import keras

from modules import contract
from modules.errors import TrainingError


def keras_path(base_model: str) -> Path:
    """The `.keras` file of a trained model, from the folder of its SavedModel."""
    return Path(base_model).parent / contract.KERAS_MODEL


def load(model: keras.Model, base_model: str) -> None:
    """Copies all weights of an earlier model, which must have the same shapes.

    Args:
        model: new; its weights are replaced.
        base_model: folder of the earlier SavedModel, as TFX gives it.

    Raises:
        TrainingError: the file is not there, or the models differ.
    """
    path = keras_path(base_model)
    try:
        earlier = keras.models.load_model(path, compile=False)
    except (OSError, ValueError, TypeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise _error(f"cannot be read: {reason[:200]}", path) from error
    difference = _difference(earlier.variables, model.variables)
    if difference:
        raise _error(f"does not fit this one: {difference}", path)
    for target, source in zip(model.variables, earlier.variables, strict=True):
        target.assign(source.numpy())


def _difference(earlier: Sequence[keras.Variable], model: Sequence[keras.Variable]) -> str:
    """What the first difference is; empty where there is none."""
    for old, new in zip(earlier, model, strict=False):
        if tuple(old.shape) != tuple(new.shape):
            return f"{new.path} has shape {tuple(new.shape)} here and {tuple(old.shape)} there"
    if len(earlier) != len(model):
        return f"it has {len(earlier)} variables, this one {len(model)}"
    return ""


def _error(what: str, path: Path) -> TrainingError:
    return TrainingError(
        f"The blessed model to start from {what}",
        place=str(path),
        remedy="Set train.warm_start: false where classes, vocabularies or the network have changed.",
    )
